// Uses rows of tensors in host memory as examples.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "mezzo/core/tensor.h"

namespace mezzo::data {

// A copy of rows indices[0], indices[1], ... of x, [n, ...], in its dtype and format. Throws
// ArgumentError unless x has a row, is dense and lies in host memory, and each index is in [0, n).
Tensor take_rows(const Tensor& x, std::span<const std::int64_t> indices);

// Throws ArgumentError `[op] NAME ...` unless x is [n, ...] with n >= 1, dense, in host memory.
void check_rows(std::string_view op, const Tensor& x, std::string_view name);

// The number of rows that all tensors have. Throws ArgumentError unless there is a tensor, each
// passes check_rows() and all have the same number.
std::int64_t common_rows(std::string_view op, const std::vector<Tensor>& tensors);

}  // namespace mezzo::data
