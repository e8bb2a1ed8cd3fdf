// Addition, subtraction, multiplication and division, the larger and the smaller of two, element by
// element with broadcasting.
//
// Shapes broadcast by numpy's rule; dtypes are promoted to their common one (see promote()).
#pragma once

#include "mezzo/core/tensor.h"

namespace mezzo {

Tensor add(const Tensor& a, const Tensor& b);
Tensor sub(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& a, const Tensor& b);
Tensor div(const Tensor& a, const Tensor& b);

// The larger and the smaller of a and b; a NaN where one of them is. The gradient goes to the one
// that is given, and by halves to both where they are equal, as in PyTorch.
Tensor maximum(const Tensor& a, const Tensor& b);
Tensor minimum(const Tensor& a, const Tensor& b);

// x / number, a division and not a product with the reciprocal; keeps the dtype of x. Computed in
// f32 for 16-bit x, and but for f64 x with the f32 number next to `number`. Throws ArgumentError
// unless x is floating.
Tensor div(const Tensor& x, double number);

// scale * x + shift with two numbers; keeps the dtype of x. Computed in f32 for 16-bit x. Throws
// ArgumentError unless x is floating.
Tensor affine(const Tensor& x, double scale, double shift);

// a += b in place, not recorded. b has the shape of a, or broadcasts to it.
void add_into(const Tensor& a, const Tensor& b);

// x summed over the axes in which `shape` broadcasts to the shape of x: the gradient of
// broadcasting. The result has that dtype; sums are kept in f32.
Tensor sum_to(const Tensor& x, const Shape& shape, DType dtype);

inline Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return sub(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return mul(a, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return div(a, b); }
// affine() and div(). Throw ArgumentError in their own names unless x is floating.
Tensor operator+(const Tensor& x, double number);
Tensor operator-(const Tensor& x, double number);
Tensor operator*(const Tensor& x, double number);
Tensor operator/(const Tensor& x, double number);
Tensor operator+(double number, const Tensor& x);
Tensor operator-(double number, const Tensor& x);
Tensor operator*(double number, const Tensor& x);
Tensor operator-(const Tensor& x);

}  // namespace mezzo
