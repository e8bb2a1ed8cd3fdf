// The attributes of affine, for its definition and kernels.
#pragma once

#include "mezzo/ops/attrs.h"

namespace mezzo {

struct AffineAttrs {
  double scale = 1;
  double shift = 0;
  static constexpr auto kFields =
      std::tuple(Field{"scale", &AffineAttrs::scale}, Field{"shift", &AffineAttrs::shift});
  bool operator==(const AffineAttrs&) const = default;
};

}  // namespace mezzo
