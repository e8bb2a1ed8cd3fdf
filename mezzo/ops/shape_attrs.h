// The attributes of reshape, expand and permute, for their definitions.
#pragma once

#include "mezzo/ops/dispatcher/attrs.h"

namespace mezzo {

// The new sizes, or the order of the axes.
struct ShapeAttrs {
  Shape shape;
  static constexpr auto kFields = std::tuple(Field{"shape", &ShapeAttrs::shape});
  bool operator==(const ShapeAttrs&) const = default;
};

}  // namespace mezzo
