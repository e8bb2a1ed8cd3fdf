// Element-wise functions of one tensor.
//
// Each keeps shape, dtype and format, throws ArgumentError for integers, and computes 16-bit
// tensors in f32, rounding once.
#pragma once

#include "mezzo/core/tensor.h"

namespace mezzo {

Tensor exp(const Tensor& x);

// The natural logarithm: -inf at 0, NaN below 0.
Tensor log(const Tensor& x);

// The square root; NaN below 0.
Tensor sqrt(const Tensor& x);

// x to a fixed power, by the rules of C's pow(): NaN where x < 0 and the exponent is not an
// integer, 1 where the exponent is 0.
Tensor pow(const Tensor& x, double exponent);

// The logistic function 1 / (1 + exp(-x)).
Tensor sigmoid(const Tensor& x);

Tensor tanh(const Tensor& x);

// x times the normal distribution's integral up to x (Hendrycks and Gimpel, "Gaussian error linear
// units", 2016).
enum class GeluForm : std::uint8_t {
  kExact,  // x / 2 * (1 + erf(x / sqrt(2)))
  kTanh,   // x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))), section 2 of the paper
};
// gelu(x); 0 at -inf, the limit.
Tensor gelu(const Tensor& x, GeluForm form = GeluForm::kExact);

// x * sigmoid(x), also called swish (Elfwing, Uchibe and Doya, "Sigmoid-weighted linear units for
// neural network function approximation in reinforcement learning", Neural Networks 107, 2018). 0
// at -inf, the limit.
Tensor silu(const Tensor& x);

// The gradients of sigmoid and tanh from their output y, and of gelu and silu from their input x:
// grad * y * (1 - y), grad * (1 - y^2), grad * gelu'(x), grad * silu'(x).
Tensor sigmoid_grad(const Tensor& grad, const Tensor& y);
Tensor tanh_grad(const Tensor& grad, const Tensor& y);
Tensor gelu_grad(const Tensor& grad, const Tensor& x, GeluForm form = GeluForm::kExact);
Tensor silu_grad(const Tensor& grad, const Tensor& x);

}  // namespace mezzo
