// More element-wise functions of one tensor, beside those of pointwise.h.
//
// Each keeps shape, dtype and format, throws ArgumentError for integers, and computes 16-bit
// tensors in f32, rounding once.
#pragma once

#include "mezzo/core/tensor.h"

namespace mezzo {

// log(1 + x), accurate for small x, where 1 + x would lose its digits; -inf at -1, NaN below.
Tensor log1p(const Tensor& x);

// 1 / sqrt(x): inf at 0, NaN below.
Tensor rsqrt(const Tensor& x);

// The error function: 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x.
Tensor erf(const Tensor& x);

// Sine and cosine of angles in radians; NaN for infinite ones.
Tensor sin(const Tensor& x);
Tensor cos(const Tensor& x);

// log(1 + exp(beta * x)) / beta, without overflow: x for large beta * x. PyTorch's `threshold`,
// from which on its result is x, is not needed. Throws ArgumentError unless beta is finite and
// not 0 in f32.
Tensor softplus(const Tensor& x, double beta = 1);

// log(1 / (1 + exp(-x))), without the underflow of sigmoid() followed by log(): where 2^-24 is
// the smallest number, that would give -inf from x = -18 on.
Tensor logsigmoid(const Tensor& x);

}  // namespace mezzo
