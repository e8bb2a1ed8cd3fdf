// Element-wise piecewise linear functions. Each keeps shape, dtype and format, and throws
// ArgumentError for integers.
#pragma once

#include "mezzo/core/tensor.h"

namespace mezzo {

// x where it is positive, negative_slope * x elsewhere (Maas, Hannun and Ng, "Rectifier
// nonlinearities improve neural network acoustic models", ICML 2013). Throws ArgumentError unless
// the slope is finite.
Tensor leaky_relu(const Tensor& x, double negative_slope = 0.01);

// x limited to [min, max]; NaN stays NaN. An infinite bound is no bound. Bounds are rounded to the
// dtype of x; finite ones beyond its range become its largest finite value. The gradient passes
// where x lies strictly between the bounds and is 0 at the bounds and at NaN, as in PyTorch since
// 2.14 (earlier it passed at the bounds). Throws ArgumentError unless min <= max.
Tensor clamp(const Tensor& x, double min, double max);

// |x|. The gradient at 0 is 0, as in PyTorch.
Tensor abs(const Tensor& x);

// The gradients of these functions from the input x: grad times the slope unless x > 0; grad, or 0
// unless min < x < max; and grad times the sign of x, which is 0 for 0 and NaN.
Tensor leaky_relu_grad(const Tensor& grad, const Tensor& x, double negative_slope = 0.01);
Tensor clamp_grad(const Tensor& grad, const Tensor& x, double min, double max);
Tensor abs_grad(const Tensor& grad, const Tensor& x);

}  // namespace mezzo
