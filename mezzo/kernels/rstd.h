// The scalar factor of a normalisation on CPUs.
#pragma once

#include <cmath>

namespace mezzo::kernels {

// 1 / sqrt(var + eps), or NaN if the variance is not finite. The quotient, 0, would turn values
// that cannot be normalised into finite results, and hide the fault. For finite variances, the
// added difference is 0 and changes no bit.
template <class Number>
Number rstd_of(Number var, Number eps) {
  const Number v = var + eps;
  return 1 / std::sqrt(v) + (v - v);
}

}  // namespace mezzo::kernels
