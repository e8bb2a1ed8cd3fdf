// The attributes of enlarging, for its definitions and kernels.
#pragma once

#include <algorithm>
#include <cstdint>

#include "mezzo/ops/dispatcher/attrs.h"
#include "mezzo/ops/window.h"

namespace mezzo {

struct UpsampleAttrs {
  Size2d scale = 1;
  static constexpr auto kFields = std::tuple(Field{"scale", &UpsampleAttrs::scale});
  bool operator==(const UpsampleAttrs&) const = default;
};

struct UpsampleBilinearAttrs {
  Size2d size = 1;  // of the result
  bool align_corners = false;
  Size2d image = 1;  // of gradients: the size of what was enlarged
  static constexpr auto kFields =
      std::tuple(Field{"size", &UpsampleBilinearAttrs::size},
                 Field{"align_corners", &UpsampleBilinearAttrs::align_corners},
                 Field{"image", &UpsampleBilinearAttrs::image});
  bool operator==(const UpsampleBilinearAttrs&) const = default;
};

// Linear interpolation along one axis, in numbers of a type that holds twice the product of both
// sizes. Result r lies at (slope * r + shift) / unit of the image, at least at its first pixel and
// at most at its last. As fractions, positions are exact: those on a pixel take that one alone.
template <class Index>
struct BilinearAxisOf {
  struct Range {  // [first, last)
    Index first;
    Index last;
  };

  Index in = 1;   // pixels of the image
  Index out = 1;  // pixels of the result
  Index slope = 1;
  Index shift = 0;
  Index unit = 1;

  constexpr Index position(Index result) const {
    return std::min<Index>(std::max<Index>(slope * result + shift, 0), (in - 1) * unit);
  }
  // The pixels around a result: those with a weight.
  constexpr Range pixels_of(Index result) const {
    const Index at = position(result);
    const Index first = at / unit;
    return {first, first + (at == first * unit ? 1 : 2)};
  }
  // The results around a pixel, in which it has a weight; there may be none.
  constexpr Range results_of(Index pixel) const {
    const Index before = (pixel - 1) * unit - shift;
    const Index after = (pixel + 1) * unit - shift;
    const Index first = pixel == 0 || before < 0 ? 0 : before / slope + 1;
    if (pixel == in - 1) return {first, out};
    return {first, after <= 0 ? 0 : std::min<Index>((after - 1) / slope + 1, out)};
  }
  // The weight of a pixel in a result around which it is.
  template <class Real>
  constexpr Real weight(Index result, Index pixel) const {
    const Index distance = position(result) - pixel * unit;
    return static_cast<Real>(unit - (distance < 0 ? -distance : distance)) /
           static_cast<Real>(unit);
  }
};
using BilinearAxis = BilinearAxisOf<std::int64_t>;

// With the centres of the first and last pixels of both on each other, or with their edges.
constexpr BilinearAxis bilinear_axis(std::int64_t in, std::int64_t out, bool align_corners) {
  if (align_corners) return {in, out, in - 1, 0, std::max<std::int64_t>(out - 1, 1)};
  return {in, out, 2 * in, in - out, 2 * out};
}

}  // namespace mezzo
