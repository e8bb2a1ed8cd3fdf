// Selecting elements by a mask: a tensor of DType::kBool, such as the results of compare.h.
//
// Shapes broadcast by numpy's rule. Elements that are not selected have no influence, even if they
// are NaN or infinite, and get a gradient of 0.
#pragma once

#include "mezzo/core/tensor.h"

namespace mezzo {

// a where the condition is true, b elsewhere. a and b may have any dtype and are promoted to their
// common one. Throws ArgumentError unless the condition is bool.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);

// x with the number wherever the mask is true; keeps the dtype of x, to which the number is
// rounded. A finite number beyond the range of that dtype becomes the nearest finite value: -1e9
// may become -65504, so that softmax() of a fully masked row is the same as in f32. An infinite
// number stays infinite. Throws ArgumentError unless the mask is bool.
Tensor masked_fill(const Tensor& x, const Tensor& mask, double number);

// The gradient of maximum(a, b) with respect to a: grad where a > b, half of it where they are
// equal, 0 where a < b, and all of it where one is NaN, as in PyTorch. Exchanging a and b gives the
// gradient with respect to b, which is also that of minimum(a, b) with respect to a. grad has the
// shape to which a and b broadcast.
Tensor maximum_grad(const Tensor& grad, const Tensor& a, const Tensor& b);

}  // namespace mezzo
