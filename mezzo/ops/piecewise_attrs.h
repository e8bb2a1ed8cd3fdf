// The attributes of piecewise linear functions, for their definitions and kernels.
#pragma once

#include "mezzo/ops/attrs.h"

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

}  // namespace mezzo
