// Element-wise comparisons. The results have DType::kBool and no gradient.
//
// Shapes broadcast by numpy's rule; dtypes are promoted to their common one (see promote()), in
// mixed precision, too, where nothing is rounded before it is compared. NaN is equal to nothing,
// and neither less nor greater: only ne() is true for it. Masks can be compared like numbers:
// eq(mask, 0) is the inverse of a mask.
#pragma once

#include "mezzo/core/tensor.h"

namespace mezzo {

Tensor eq(const Tensor& a, const Tensor& b);  // a == b
Tensor ne(const Tensor& a, const Tensor& b);  // a != b
Tensor lt(const Tensor& a, const Tensor& b);  // a < b
Tensor le(const Tensor& a, const Tensor& b);  // a <= b
Tensor gt(const Tensor& a, const Tensor& b);  // a > b
Tensor ge(const Tensor& a, const Tensor& b);  // a >= b

// Comparisons with a scalar. It is an f64 where x is f64 or an integer (i64 beyond 2^53 is first
// rounded to f64), else it is rounded to f32: no 16-bit x is equal to 0.1.
Tensor eq(const Tensor& x, double number);
Tensor ne(const Tensor& x, double number);
Tensor lt(const Tensor& x, double number);
Tensor le(const Tensor& x, double number);
Tensor gt(const Tensor& x, double number);
Tensor ge(const Tensor& x, double number);

}  // namespace mezzo
