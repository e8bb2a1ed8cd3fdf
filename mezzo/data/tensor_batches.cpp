#include "mezzo/data/tensor_batches.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/core/parallel.h"

namespace mezzo::data {
namespace {

void check_examples(const Tensor& x, const char* name) {
  check_arg(x.defined() && x.rank() >= 1 && x.size(0) >= 1, "TensorBatches", name,
            " are examples [n, ...], with n of at least 1; here is ", x);
  check_arg(x.device() == kCpuDevice, "TensorBatches", name, " are on ", x.device(),
            ", and batches are put together on the host. Give them as to(kCpuDevice)");
  check_arg(x.is_one_block(), "TensorBatches", name, " do not lie in one block of memory: ", x,
            ". Give them as contiguous()");
}

BatchOrder order_of_examples(const Tensor& inputs, const Tensor& labels,
                             const TensorBatchesOptions& options) {
  check_examples(inputs, "inputs");
  check_examples(labels, "labels");
  check_arg(inputs.size(0) == labels.size(0), "TensorBatches", "there are ", inputs.size(0),
            " inputs and ", labels.size(0), " labels. Give a label for each input");
  return {.examples = inputs.size(0),
          .batch_size = options.batch_size,
          .shuffle = options.shuffle,
          .drop_remainder = options.drop_remainder,
          .seed = options.seed,
          .shard = options.shard};
}

Tensor rows_of(const Tensor& x, std::span<const std::int64_t> indices) {
  constexpr std::int64_t kGrainBytes = 1 << 16;
  Shape shape = x.shape();
  shape[0] = static_cast<std::int64_t>(indices.size());
  const Tensor rows = empty(shape, x.dtype(), x.format());
  const std::size_t bytes = x.bytes() / static_cast<std::size_t>(x.size(0));
  if (bytes == 0) return rows;
  const auto* from = static_cast<const std::byte*>(x.raw_data());
  auto* to = static_cast<std::byte*>(rows.mutable_raw_data());
  const auto grain = std::max<std::int64_t>(1, kGrainBytes / static_cast<std::int64_t>(bytes));
  parallel_for(shape[0], grain, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
      std::memcpy(to + i * bytes, from + static_cast<std::size_t>(indices[i]) * bytes, bytes);
    }
  });
  return rows;
}

}  // namespace

TensorBatches::TensorBatches(const Tensor& inputs, const Tensor& labels,
                             TensorBatchesOptions options)
    : BatchSource(order_of_examples(inputs, labels, options)), inputs_(inputs), labels_(labels) {}

Batch TensorBatches::take_batch() {
  std::vector<std::int64_t> indices = indices_of(position().step);
  Tensor inputs = rows_of(inputs_, indices);
  Tensor labels = rows_of(labels_, indices);
  return {.images = std::move(inputs), .labels = std::move(labels), .indices = std::move(indices)};
}

}  // namespace mezzo::data
