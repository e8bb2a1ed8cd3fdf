// The attributes of enlarging, for its definitions and kernels.
#pragma once

#include "mezzo/ops/attrs.h"
#include "mezzo/ops/window.h"

namespace mezzo {

struct UpsampleAttrs {
  Size2d scale = 1;
  static constexpr auto kFields = std::tuple(Field{"scale", &UpsampleAttrs::scale});
  bool operator==(const UpsampleAttrs&) const = default;
};

}  // namespace mezzo
