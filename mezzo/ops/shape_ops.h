// Reshaping, permuting, slicing and concatenating. Results are views where the memory layout allows
// it.
#pragma once

#include <span>

#include "mezzo/core/tensor.h"

namespace mezzo {

// x with another shape of as many elements, in row-major order; one size may be -1 and is inferred.
// A view if the strides allow it, else a copy. Throws ArgumentError if the counts differ.
Tensor reshape(const Tensor& x, const Shape& shape);

// Merges axes [start, end] into one. flatten(x, 1) of [n, c, h, w] is [n, c * h * w].
Tensor flatten(const Tensor& x, std::int64_t start = 0, std::int64_t end = -1);

// Axis i of the result is axis axes[i] of x; a view.
Tensor permute(const Tensor& x, const Shape& axes);

// Exchanges two axes; a view.
Tensor transpose(const Tensor& x, std::int64_t axis_a = -2, std::int64_t axis_b = -1);

// Elements start, start + step, ... before `end` along one axis; a view. Negative positions count
// from the end; positions beyond it are clamped. Throws ArgumentError unless step >= 1.
Tensor slice(const Tensor& x, std::int64_t axis, std::int64_t start, std::int64_t end,
             std::int64_t step = 1);

// x broadcast to a larger shape without copying (strides of 0); a view.
Tensor expand(const Tensor& x, const Shape& shape);

// Concatenates the tensors along an axis; dtypes are promoted. Throws ArgumentError if other sizes
// differ or there are no tensors.
Tensor cat(std::span<const Tensor> tensors, std::int64_t axis = 0);
inline Tensor cat(std::initializer_list<Tensor> tensors, std::int64_t axis = 0) {
  return cat(std::span<const Tensor>(tensors.begin(), tensors.size()), axis);
}

}  // namespace mezzo
