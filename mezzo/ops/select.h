// Choosing between elements by a mask: a tensor of DType::kBool, such as compare.h makes.
//
// Shapes broadcast by numpy's rule. What is not chosen has no say, NaN or infinity as it may be,
// and gets a gradient of 0.
#pragma once

#include "mezzo/core/tensor.h"

namespace mezzo {

// a where the condition is true, b elsewhere. a and b are of any dtype, and promoted to their
// common one. Throws ArgumentError unless the condition is bool.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);

// x with the number wherever the mask is true; keeps the dtype of x, to which the number is
// rounded. A finite number beyond the range of that dtype becomes the largest one that it has: -1e9
// in f16 is -65504, so that softmax() of a row that is masked wholly is what it is in f32. An
// infinite one stays infinite. Throws ArgumentError unless the mask is bool.
Tensor masked_fill(const Tensor& x, const Tensor& mask, double number);

// The gradient of maximum(a, b) by a: grad where a > b, half of it where they are equal, 0 where
// a < b; all of it where one is a NaN, as in PyTorch. With a and b exchanged it is that by b, and
// that of minimum(a, b) by a. grad has the shape to which a and b broadcast.
Tensor maximum_grad(const Tensor& grad, const Tensor& a, const Tensor& b);

}  // namespace mezzo
