#include "mezzo/data/rows.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "mezzo/core/error.h"
#include "mezzo/core/parallel.h"

namespace mezzo::data {

void check_rows(std::string_view op, const Tensor& x, std::string_view name) {
  check_arg(x.defined() && x.rank() >= 1 && x.size(0) >= 1, op, name,
            " are examples [n, ...], with n of at least 1; here is ", x);
  check_arg(x.device() == kCpuDevice, op, name, " are on ", x.device(),
            ", but batches are assembled on the host. Use to(kCpuDevice)");
  check_arg(x.is_one_block(), op, name, " are not contiguous in memory: ", x, ". Use contiguous()");
}

std::int64_t common_rows(std::string_view op, const std::vector<Tensor>& tensors) {
  check_arg(!tensors.empty(), op, "there are no tensors. Give at least one");
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    check_rows(op, tensors[i], concat("the rows of tensor ", i));
    check_arg(tensors[i].size(0) == tensors[0].size(0), op, "tensor ", i, " has ",
              tensors[i].size(0), " rows, and the first one ", tensors[0].size(0),
              ". Give all tensors the same number of rows");
  }
  return tensors[0].size(0);
}

Tensor take_rows(const Tensor& x, std::span<const std::int64_t> indices) {
  constexpr std::int64_t kGrainBytes = 1 << 16;
  check_rows("take_rows", x, "the rows");
  for (const std::int64_t index : indices) {
    check_arg(index >= 0 && index < x.size(0), "take_rows", "there is no row ", index, " in ", x,
              ". Rows count from 0");
  }
  Shape shape = x.shape();
  shape[0] = std::ssize(indices);
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

}  // namespace mezzo::data
