// The factor of a normalisation on CPUs, apart from vectors.
#pragma once

#include <cmath>

namespace mezzo::kernels {

// 1 / sqrt(var + eps), or NaN if the variance is not finite: 0, the quotient, would make a finite
// result of numbers that cannot be normalised, and nobody would see it. The difference is 0
// otherwise, and changes no bit.
template <class Number>
Number rstd_of(Number var, Number eps) {
  const Number v = var + eps;
  return 1 / std::sqrt(v) + (v - v);
}

}  // namespace mezzo::kernels
