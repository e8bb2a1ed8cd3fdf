// What normalisations divide by.
#pragma once

#include <cmath>
#include <limits>

#include "mezzo/core/dtype.h"
#include "mezzo/kernels/kernel.h"

namespace mezzo::kernels::ref {

// sqrt(var + eps), or NaN if the variance is not finite in the dtype of the statistics of x, which
// other kernels find it in: what is divided by infinity would be a finite result of numbers that
// cannot be normalised.
inline double deviation_of(const RefTensor& x, double var, double eps) {
  const DType dtype = x.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  const bool is_finite = std::abs(var) <= max_of(dtype);
  return is_finite ? std::sqrt(var + eps) : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace mezzo::kernels::ref
