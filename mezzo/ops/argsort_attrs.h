// The attributes of sorting, for its definition and kernels.
#pragma once

#include "mezzo/ops/dispatcher/attrs.h"

namespace mezzo {

struct ArgsortAttrs {
  std::int64_t axis = 0;  // normalised
  bool descending = false;
  std::int64_t count = 0;  // how many indices are wanted, from the first
  static constexpr auto kFields =
      std::tuple(Field{"axis", &ArgsortAttrs::axis}, Field{"descending", &ArgsortAttrs::descending},
                 Field{"count", &ArgsortAttrs::count});
  bool operator==(const ArgsortAttrs&) const = default;
};

}  // namespace mezzo
