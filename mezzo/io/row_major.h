// What the writers and readers of tensor files share.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>

#include "mezzo/core/tensor.h"

namespace mezzo::io {

// The tensor itself if its elements lie in the host's memory in row-major order, else a copy in
// which they do.
inline Tensor row_major(const Tensor& tensor) {
  if (tensor.device() != kCpuDevice) return row_major(tensor.to(kCpuDevice));
  if (tensor.is_dense()) return tensor;
  Tensor copy = empty(tensor.shape(), tensor.dtype());
  copy_elements(tensor, copy);
  return copy;
}

// The first byte that is no bool: one that is neither 0 nor 1 is undefined behaviour in every
// program that reads it.
inline std::optional<std::size_t> find_odd_bool(std::span<const std::byte> bytes) {
  const auto odd = std::ranges::find_if(bytes, [](std::byte b) { return b > std::byte{1}; });
  if (odd == bytes.end()) return std::nullopt;
  return static_cast<std::size_t>(odd - bytes.begin());
}

}  // namespace mezzo::io
