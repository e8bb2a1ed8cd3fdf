// The attributes of affine, for its definition and kernels.
#pragma once

#include <cmath>
#include <limits>

#include "mezzo/ops/attrs.h"

namespace mezzo {

struct AffineAttrs {
  double scale = 1;
  double shift = 0;
  static constexpr auto kFields =
      std::tuple(Field{"scale", &AffineAttrs::scale}, Field{"shift", &AffineAttrs::shift});
  bool operator==(const AffineAttrs&) const = default;

  // False if the factor would become 0 or infinite in f32, while its products need not.
  bool is_in_f32_range() const {
    const double size = scale < 0 ? -scale : scale;
    return scale == 0 ||
           (size >= std::numeric_limits<float>::min() &&
            size <= std::numeric_limits<float>::max()) ||
           !std::isfinite(scale);
  }
};

}  // namespace mezzo
