// The attributes of piecewise linear functions, for their definitions and kernels.
#pragma once

#include <cmath>
#include <limits>

#include "mezzo/core/convert_element.h"
#include "mezzo/core/dtype.h"
#include "mezzo/ops/dispatcher/attrs.h"

namespace mezzo {

struct LeakyReluAttrs {
  double negative_slope = 0.01;
  static constexpr auto kFields =
      std::tuple(Field{"negative_slope", &LeakyReluAttrs::negative_slope});
  bool operator==(const LeakyReluAttrs&) const = default;
};

struct ClampAttrs {
  double min = 0;
  double max = 1;
  static constexpr auto kFields =
      std::tuple(Field{"min", &ClampAttrs::min}, Field{"max", &ClampAttrs::max});
  bool operator==(const ClampAttrs&) const = default;
};

// The bounds for x of that dtype: rounded to it, and finite if they were.
inline ClampAttrs bounds_in(DType dtype, const ClampAttrs& attrs) {
  const auto rounded = [dtype](double bound) {
    bound = within_range(bound, dtype);
    if (!is_floating(dtype)) return bound;
    return visit_dtype(
        dtype, [bound]<class T>() { return convert_element<double>(convert_element<T>(bound)); });
  };
  return {rounded(attrs.min), rounded(attrs.max)};
}

// The first and the last f32 number strictly between two bounds, where the gradient passes. An
// infinite bound is no bound.
struct InsideOfClamp {
  float first = 0;
  float last = 0;
};
inline InsideOfClamp inside_of(const ClampAttrs& bounds) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto min = static_cast<float>(bounds.min);
  const auto max = static_cast<float>(bounds.max);
  return {std::isinf(min) ? min : std::nextafter(min, kInfinity),
          std::isinf(max) ? max : std::nextafter(max, -kInfinity)};
}

}  // namespace mezzo
