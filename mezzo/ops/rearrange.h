// Stacking, splitting and padding, made of the operations of shape_ops.h.
#pragma once

#include <span>
#include <vector>

#include "mezzo/core/tensor.h"

namespace mezzo {

// The tensors side by side along a new axis; they have one shape, and dtypes are promoted. A
// negative axis counts from the end of the result. Throws ArgumentError if shapes differ or there
// are no tensors.
Tensor stack(std::span<const Tensor> tensors, std::int64_t axis = 0);
inline Tensor stack(std::initializer_list<Tensor> tensors, std::int64_t axis = 0) {
  return stack(std::span<const Tensor>(tensors.begin(), tensors.size()), axis);
}

// x in parts of `size` along an axis; the last one may be smaller. The parts are views. Throws
// ArgumentError unless size is positive.
std::vector<Tensor> split(const Tensor& x, std::int64_t size, std::int64_t axis = 0);

// x in parts of these sizes along an axis; views. Throws ArgumentError unless the sizes add up to
// that of the axis.
std::vector<Tensor> split(const Tensor& x, std::span<const std::int64_t> sizes,
                          std::int64_t axis = 0);
inline std::vector<Tensor> split(const Tensor& x, std::initializer_list<std::int64_t> sizes,
                                 std::int64_t axis = 0) {
  return split(x, std::span<const std::int64_t>(sizes.begin(), sizes.size()), axis);
}

// x in `chunks` parts of one size along an axis; the last one may be smaller, and there may be
// fewer, as in PyTorch: 5 elements in 4 chunks give parts of 2, 2 and 1. Views. Throws
// ArgumentError unless the number is positive, and for more than 2^20 chunks of an empty axis.
std::vector<Tensor> chunk(const Tensor& x, std::int64_t chunks, std::int64_t axis = 0);

// x with `value`, rounded to its dtype, around it. `sides` has two numbers for each padded axis,
// those of the last axis first: {left, right, top, bottom}. A negative number cuts elements off.
// Throws ArgumentError unless it has an even number of values, for axes that x has, and leaves no
// axis with less than 0 elements.
Tensor pad(const Tensor& x, std::span<const std::int64_t> sides, double value = 0);
inline Tensor pad(const Tensor& x, std::initializer_list<std::int64_t> sides, double value = 0) {
  return pad(x, std::span<const std::int64_t>(sides.begin(), sides.size()), value);
}

}  // namespace mezzo
