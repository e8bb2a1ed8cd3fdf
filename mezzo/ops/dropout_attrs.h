// The attributes of dropout, for its definition and kernels.
#pragma once

#include <cmath>

#include "mezzo/ops/dispatcher/attrs.h"

namespace mezzo {

struct DropoutAttrs {
  double p = 0.5;
  RandomPosition position;  // word i decides about element i in the memory order of `format`
  Format format = Format::kContiguous;
  static constexpr auto kFields =
      std::tuple(Field{"p", &DropoutAttrs::p}, Field{"position", &DropoutAttrs::position},
                 Field{"format", &DropoutAttrs::format});
  bool operator==(const DropoutAttrs&) const = default;

  // The position of the first word. `start`: null, or the parts of the position that `position` is
  // relative to.
  template <class Part>
  constexpr RandomPosition place(const Part* start) const {
    if (start == nullptr) return position;
    const RandomPosition from = position_from(start);
    return {from.seed, from.offset + position.offset};
  }

  // An element is dropped if the upper 24 bits of its word are below this, that is, if
  // to_unit(word) < p.
  std::uint32_t threshold() const { return static_cast<std::uint32_t>(std::ceil(p * 0x1p24)); }
};

}  // namespace mezzo
