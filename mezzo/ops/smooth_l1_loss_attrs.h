// The attributes of smooth_l1_loss, for its definition and kernels.
#pragma once

#include "mezzo/ops/dispatcher/attrs.h"

namespace mezzo {

struct SmoothL1Attrs {
  double beta = 1;   // distance where the parabola ends
  double slope = 1;  // slope of the lines beyond it
  static constexpr auto kFields =
      std::tuple(Field{"beta", &SmoothL1Attrs::beta}, Field{"slope", &SmoothL1Attrs::slope});
  bool operator==(const SmoothL1Attrs&) const = default;

  // The factor of the squared distance; 0 where there is no parabola.
  double square_factor() const { return beta > 0 ? slope / (2 * beta) : 0; }
};

}  // namespace mezzo
