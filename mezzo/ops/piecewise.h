// Piecewise linear functions of one number, element by element. Each keeps shape, dtype and format,
// and throws ArgumentError for integers.
#pragma once

#include "mezzo/core/tensor.h"

namespace mezzo {

// x where it is positive, negative_slope * x elsewhere (Maas, Hannun and Ng, "Rectifier
// nonlinearities improve neural network acoustic models", ICML 2013). Throws ArgumentError unless
// the slope is finite.
Tensor leaky_relu(const Tensor& x, double negative_slope = 0.01);

// x limited to [min, max], a NaN stays; a bound that is infinite is none. Bounds are rounded to the
// dtype of x, and finite ones beyond its range become the largest number that it has. The gradient
// passes where x lies between the bounds and is 0 at them and at NaN, as in PyTorch since 2.14
// (until then it passed at the bounds). Throws ArgumentError unless min <= max.
Tensor clamp(const Tensor& x, double min, double max);

// |x|. The gradient at 0 is 0, as in PyTorch.
Tensor abs(const Tensor& x);

// Their gradients from the input x: grad, times the slope unless x > 0, or 0 unless
// min < x < max, or times the sign of x, which is 0 for 0 and NaN.
Tensor leaky_relu_grad(const Tensor& grad, const Tensor& x, double negative_slope = 0.01);
Tensor clamp_grad(const Tensor& grad, const Tensor& x, double min, double max);
Tensor abs_grad(const Tensor& grad, const Tensor& x);

}  // namespace mezzo
