// The attributes of resizing images, for its definitions and kernels.
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
  Size2d image = 1;  // for gradients: the size of the images that were resized
  static constexpr auto kFields =
      std::tuple(Field{"size", &UpsampleBilinearAttrs::size},
                 Field{"align_corners", &UpsampleBilinearAttrs::align_corners},
                 Field{"image", &UpsampleBilinearAttrs::image});
  bool operator==(const UpsampleBilinearAttrs&) const = default;
};

// Linear interpolation along one axis. Index must hold twice the product of both sizes. Result r
// lies at (slope * r + shift) / unit in the image, clamped to its first and last pixel. As
// fractions, positions are exact: a result exactly at a pixel takes that pixel alone.
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
  // The pixels around a result, which have a weight in it.
  constexpr Range pixels_of(Index result) const {
    const Index at = position(result);
    const Index first = at / unit;
    return {first, first + (at == first * unit ? 1 : 2)};
  }
  // The results in which a pixel has a weight; there may be none.
  constexpr Range results_of(Index pixel) const {
    const Index before = (pixel - 1) * unit - shift;
    const Index after = (pixel + 1) * unit - shift;
    const Index first = pixel == 0 || before < 0 ? 0 : before / slope + 1;
    if (pixel == in - 1) return {first, out};
    return {first, after <= 0 ? 0 : std::min<Index>((after - 1) / slope + 1, out)};
  }
  // The weight of a pixel in a result; the pixel must be in pixels_of(result).
  template <class Real>
  constexpr Real weight(Index result, Index pixel) const {
    const Index distance = position(result) - pixel * unit;
    return static_cast<Real>(unit - (distance < 0 ? -distance : distance)) /
           static_cast<Real>(unit);
  }
};
using BilinearAxis = BilinearAxisOf<std::int64_t>;

// Aligns the centres of the first and last pixels of both, or their edges.
constexpr BilinearAxis bilinear_axis(std::int64_t in, std::int64_t out, bool align_corners) {
  if (align_corners) return {in, out, in - 1, 0, std::max<std::int64_t>(out - 1, 1)};
  return {in, out, 2 * in, in - out, 2 * out};
}

}  // namespace mezzo
