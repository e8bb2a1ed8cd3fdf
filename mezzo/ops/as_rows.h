// Tensors as matrices.
#pragma once

#include "mezzo/core/tensor.h"
#include "mezzo/ops/shape_ops.h"

namespace mezzo {

// [..., features] as a matrix, one row per sample.
inline Tensor as_rows(const Tensor& x) {
  const std::int64_t rows = Shape({x.shape().begin(), x.rank() - 1}).numel();
  return reshape(x, {rows, x.shape().back()});
}

}  // namespace mezzo
