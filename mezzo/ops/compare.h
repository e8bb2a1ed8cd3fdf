// Comparisons, element by element: tensors of answers, DType::kBool, which have no gradient.
//
// Shapes broadcast by numpy's rule; dtypes are promoted to their common one (see promote()), in
// mixed precision, too, where nothing is rounded before it is compared. A NaN is equal to nothing,
// and neither less nor greater: only ne() says yes. Masks can be compared like numbers: eq(mask, 0)
// is the opposite of a mask.
#pragma once

#include "mezzo/core/tensor.h"

namespace mezzo {

Tensor eq(const Tensor& a, const Tensor& b);  // a == b
Tensor ne(const Tensor& a, const Tensor& b);  // a != b
Tensor lt(const Tensor& a, const Tensor& b);  // a < b
Tensor le(const Tensor& a, const Tensor& b);  // a <= b
Tensor gt(const Tensor& a, const Tensor& b);  // a > b
Tensor ge(const Tensor& a, const Tensor& b);  // a >= b

// The same with one number, as an f64 where x is f64 or an integer (i64 beyond 2^53 is rounded to
// f64 first), else as the f32 number next to it: of 16-bit x, none is equal to 0.1.
Tensor eq(const Tensor& x, double number);
Tensor ne(const Tensor& x, double number);
Tensor lt(const Tensor& x, double number);
Tensor le(const Tensor& x, double number);
Tensor gt(const Tensor& x, double number);
Tensor ge(const Tensor& x, double number);

}  // namespace mezzo
