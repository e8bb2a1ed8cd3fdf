// Element-wise addition, subtraction, multiplication, division, maximum and minimum, with
// broadcasting.
//
// Shapes broadcast by numpy's rule; dtypes are promoted to their common one (see promote()).
#pragma once

#include "mezzo/core/tensor.h"

namespace mezzo {

Tensor add(const Tensor& a, const Tensor& b);
// x + branch for the residual stream x of a deep network, with broadcasting: add(), but of the
// class `keep`. At O2, where add() rounds both operands to 16 bits, this sum stays in the dtype of
// the wider one, as it does in PyTorch's autocast. A stream of 16 bits would be rounded after every
// branch: in bf16, a branch whose values are below 1/512 of the stream's has no effect at all.
// Throws ArgumentError unless both are floating.
Tensor add_residual(const Tensor& x, const Tensor& branch);
Tensor sub(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& a, const Tensor& b);
Tensor div(const Tensor& a, const Tensor& b);

// The larger and the smaller of a and b; NaN where either is NaN. The gradient flows to the chosen
// element, or half to each where they are equal, as in PyTorch.
Tensor maximum(const Tensor& a, const Tensor& b);
Tensor minimum(const Tensor& a, const Tensor& b);

// x / number, computed as a division, not as a product with the reciprocal; keeps the dtype of x.
// Computed in f32 for 16-bit x. Unless x is f64, `number` is rounded to f32. Throws ArgumentError
// unless x is floating.
Tensor div(const Tensor& x, double number);

// scale * x + shift with scalars; keeps the dtype of x. Computed in f32 for 16-bit x. Throws
// ArgumentError unless x is floating.
Tensor affine(const Tensor& x, double scale, double shift);

// a += b in place, not recorded. b has the shape of a, or broadcasts to it.
void add_into(const Tensor& a, const Tensor& b);

// x summed over the axes along which `shape` broadcasts to the shape of x: the gradient of
// broadcasting. The result has the given dtype; sums are kept in f32.
Tensor sum_to(const Tensor& x, const Shape& shape, DType dtype);

inline Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return sub(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return mul(a, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return div(a, b); }
// affine() and div() as operators. They throw ArgumentError under their own names unless x is
// floating.
Tensor operator+(const Tensor& x, double number);
Tensor operator-(const Tensor& x, double number);
Tensor operator*(const Tensor& x, double number);
Tensor operator/(const Tensor& x, double number);
Tensor operator+(double number, const Tensor& x);
Tensor operator-(double number, const Tensor& x);
Tensor operator*(double number, const Tensor& x);
Tensor operator-(const Tensor& x);

}  // namespace mezzo
