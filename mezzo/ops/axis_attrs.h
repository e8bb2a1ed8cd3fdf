// The attributes of operations along one axis, for their definitions and kernels.
#pragma once

#include "mezzo/ops/dispatcher/attrs.h"

namespace mezzo {

struct AxisAttrs {
  std::int64_t axis = -1;  // negative values count from the end
  static constexpr auto kFields = std::tuple(Field{"axis", &AxisAttrs::axis});
  bool operator==(const AxisAttrs&) const = default;
};

}  // namespace mezzo
