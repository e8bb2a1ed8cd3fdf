// The attributes of affine and div_number, for their definitions and kernels.
#pragma once

#include <cmath>
#include <limits>

#include "mezzo/ops/dispatcher/attrs.h"

namespace mezzo {

// False if rounding the number to f32 would make it 0 or infinite, or lose digits, although the
// result of the computation need not be.
inline bool is_in_f32_range(double number) {
  const double size = number < 0 ? -number : number;
  return number == 0 ||
         (size >= std::numeric_limits<float>::min() && size <= std::numeric_limits<float>::max()) ||
         !std::isfinite(number);
}

struct AffineAttrs {
  double scale = 1;
  double shift = 0;
  static constexpr auto kFields =
      std::tuple(Field{"scale", &AffineAttrs::scale}, Field{"shift", &AffineAttrs::shift});
  bool operator==(const AffineAttrs&) const = default;
};

struct DivNumberAttrs {
  double divisor = 1;
  static constexpr auto kFields = std::tuple(Field{"divisor", &DivNumberAttrs::divisor});
  bool operator==(const DivNumberAttrs&) const = default;
};

}  // namespace mezzo
