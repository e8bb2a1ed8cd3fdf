// The divisor of normalisations.
#pragma once

#include <cmath>
#include <limits>

#include "mezzo/core/dtype.h"
#include "mezzo/kernels/kernel.h"

namespace mezzo::kernels::ref {

// sqrt(var + eps), or NaN if the variance is not finite in the dtype in which other kernels compute
// the statistics of x. Dividing by infinity would turn values that cannot be normalised into finite
// results.
inline double deviation_of(const RefTensor& x, double var, double eps) {
  const DType dtype = x.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  const bool is_finite = std::abs(var) <= max_of(dtype);
  return is_finite ? std::sqrt(var + eps) : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace mezzo::kernels::ref
