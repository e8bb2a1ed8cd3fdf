// RMS normalization.
//
// Zhang and Sennrich, "Root mean square layer normalization", NeurIPS 2019.
#pragma once

#include <optional>

#include "mezzo/core/tensor.h"

namespace mezzo {

// x / sqrt(mean(x^2) + eps) * weight. The mean is taken over the last axes, whose sizes are
// `normalized_shape`; nothing is subtracted, and eps stands inside the root.
//
// x: [..., normalized_shape] in f32 or 16 bits; the result has its shape and dtype and is
// row-major. weight: [normalized_shape] and f32 (f64 for f64 x). It may be 16-bit, and is widened
// before the computation; an undefined one stands for 1. Without eps, it is the epsilon of the
// dtype of the statistics: 1.19e-7, for f64 x 2.22e-16. A row whose mean square is not finite
// becomes NaN. Throws ArgumentError for other shapes and dtypes, and if there is nothing to
// normalise.
Tensor rms_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight = Tensor(),
                std::optional<double> eps = std::nullopt);

}  // namespace mezzo
