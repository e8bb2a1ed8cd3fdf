// The attributes of cumulative sums, for their definition and kernels.
#pragma once

#include "mezzo/ops/dispatcher/attrs.h"

namespace mezzo {

struct CumsumAttrs {
  std::int64_t axis = 0;  // normalised
  bool reverse = false;   // from the last element back to each one: the gradient
  static constexpr auto kFields =
      std::tuple(Field{"axis", &CumsumAttrs::axis}, Field{"reverse", &CumsumAttrs::reverse});
  bool operator==(const CumsumAttrs&) const = default;
};

}  // namespace mezzo
