#include "mezzo/data/pad.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "mezzo/core/error.h"

namespace mezzo::data {
namespace {

void check_alike(std::string_view op, const Tensor& first, const Tensor& x, std::size_t i) {
  Shape shape = x.shape();
  shape[0] = first.size(0);
  check_arg(
      x.dtype() == first.dtype() && shape == first.shape(), op, "sequence ", i, " is ", x,
      ", and the first one ", first,
      ". All sequences must have the same dtype and the same dimensions except for the first");
}

}  // namespace

std::vector<std::int64_t> lengths_of(std::span<const Tensor> sequences) {
  std::vector<std::int64_t> lengths;
  for (const Tensor& x : sequences) {
    check_arg(x.defined() && x.rank() >= 1, "lengths_of", "sequences are [t, ...]; sequence ",
              lengths.size(), " is ", x);
    lengths.push_back(x.size(0));
  }
  return lengths;
}

void check_sequences(std::string_view op, std::span<const Tensor> sequences,
                     const PadOptions& options) {
  check_arg(!sequences.empty(), op, "there are no sequences. Give at least one");
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const Tensor& x = sequences[i];
    check_arg(x.defined() && x.rank() >= 1, op, "sequences are [t, ...]; sequence ", i, " is ", x);
    check_arg(x.device() == kCpuDevice, op, "sequence ", i, " is on ", x.device(),
              ", but sequences are padded on the host. Use to(kCpuDevice)");
    check_arg(x.is_dense(), op, "sequence ", i, " is not dense: ", x, ". Use contiguous()");
    check_alike(op, sequences[0], x, i);
  }
  const DType dtype = sequences[0].dtype();
  const Tensor value = full({1}, options.value, dtype);  // throws for what floats cannot hold
  check_arg(is_floating(dtype) || value.to_vector<double>()[0] == options.value, op, "the value ",
            options.value, " does not fit in ", name_of(dtype), ". Use a value that fits");
}

PaddedSequences pad_sequences(std::span<const Tensor> sequences, const PadOptions& options) {
  check_sequences("pad_sequences", sequences, options);
  const std::vector<std::int64_t> lengths = lengths_of(sequences);
  const std::int64_t longest = std::ranges::max(lengths);
  const std::int64_t count = std::ssize(lengths);
  std::vector<std::int64_t> shape{count, longest};
  for (std::size_t d = 1; d < sequences[0].rank(); ++d) shape.push_back(sequences[0].size(d));
  const Tensor values = full(Shape(shape), options.value, sequences[0].dtype());
  auto* to = static_cast<std::byte*>(values.mutable_raw_data());
  const std::size_t row_bytes = values.bytes() / static_cast<std::size_t>(count);
  for (const Tensor& x : sequences) {
    const std::size_t before = options.side == PadSide::kLeft ? row_bytes - x.bytes() : 0;
    if (x.bytes() > 0) std::memcpy(to + before, x.raw_data(), x.bytes());
    to += row_bytes;
  }
  return {values, from_values(lengths, {count})};
}

}  // namespace mezzo::data
