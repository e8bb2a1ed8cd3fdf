// Cumulative sums.
#pragma once

#include "mezzo/core/tensor.h"

namespace mezzo {

// The sum of the elements up to each one, along an axis. The result has the shape and dtype of x,
// or i64 if x has integers. Sums are f64 inside, and each result is rounded once. Sums of integers
// are i64 and wrap around; on devices they are exact only up to 2^53. Throws ArgumentError for an
// axis that x does not have.
Tensor cumsum(const Tensor& x, std::int64_t axis);

}  // namespace mezzo
