// Helpers that the writers and readers of tensor files share.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>

#include "mezzo/core/tensor.h"

namespace mezzo::io {

// The tensor itself if its elements lie in host memory in row-major order; otherwise such a copy.
inline Tensor row_major(const Tensor& tensor) {
  if (tensor.device() != kCpuDevice) return row_major(tensor.to(kCpuDevice));
  if (tensor.is_dense()) return tensor;
  Tensor copy = empty(tensor.shape(), tensor.dtype());
  copy_elements(tensor, copy);
  return copy;
}

// The position of the first byte that is not a bool. A byte other than 0 or 1 would be undefined
// behaviour in every program that reads it as bool.
inline std::optional<std::size_t> find_odd_bool(std::span<const std::byte> bytes) {
  const auto odd = std::ranges::find_if(bytes, [](std::byte b) { return b > std::byte{1}; });
  if (odd == bytes.end()) return std::nullopt;
  return static_cast<std::size_t>(odd - bytes.begin());
}

}  // namespace mezzo::io
