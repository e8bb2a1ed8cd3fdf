// The attributes of pooling, for its definitions and kernels.
#pragma once

#include <algorithm>

#include "mezzo/core/math.h"
#include "mezzo/ops/dispatcher/attrs.h"
#include "mezzo/ops/window.h"

namespace mezzo {

struct Pool2dAttrs {
  Size2d kernel = 2;
  Size2d stride = 2;
  Sides padding{};
  bool count_include_pad = true;  // for means
  Size2d image = 0;               // for gradients: the size of the pooled images
  static constexpr auto kFields =
      std::tuple(Field{"kernel", &Pool2dAttrs::kernel}, Field{"stride", &Pool2dAttrs::stride},
                 Field{"padding", &Pool2dAttrs::padding},
                 Field{"count_include_pad", &Pool2dAttrs::count_include_pad},
                 Field{"image", &Pool2dAttrs::image});
  bool operator==(const Pool2dAttrs&) const = default;

  Window2d window() const { return {kernel, stride, 1, padding}; }
};

// The windows along one axis. Index must hold all their positions.
template <class Index>
struct PoolAxisOf {
  Index in = 0;   // pixels of the image
  Index out = 0;  // windows
  Index kernel = 1;
  Index stride = 1;
  Index before = 0;  // padding

  // The window's pixels that lie in the image are [first, last).
  constexpr Index start(Index window) const { return window * stride - before; }
  constexpr Index first(Index window) const { return std::max<Index>(start(window), 0); }
  constexpr Index last(Index window) const { return std::min(start(window) + kernel, in); }
  // The windows that contain a pixel are [first_over, last_over).
  constexpr Index first_over(Index pixel) const {
    const Index reach = pixel + before - kernel + 1;
    return reach <= 0 ? 0 : ceil_div(reach, stride);
  }
  constexpr Index last_over(Index pixel) const {
    return std::min((pixel + before) / stride + 1, out);
  }
};
using PoolAxis = PoolAxisOf<std::int64_t>;

// The axes of pooling images of size `in` to size `out`.
inline PoolAxis rows_of(const Pool2dAttrs& attrs, std::int64_t in, std::int64_t out) {
  return {in, out, attrs.kernel.h, attrs.stride.h, attrs.padding.top};
}
inline PoolAxis columns_of(const Pool2dAttrs& attrs, std::int64_t in, std::int64_t out) {
  return {in, out, attrs.kernel.w, attrs.stride.w, attrs.padding.left};
}

// The divisor of the sum over a window.
inline std::int64_t pool_divisor(const Pool2dAttrs& attrs, const PoolAxis& rows,
                                 const PoolAxis& columns, std::int64_t row, std::int64_t column) {
  if (attrs.count_include_pad) return attrs.kernel.h * attrs.kernel.w;
  return (rows.last(row) - rows.first(row)) * (columns.last(column) - columns.first(column));
}

}  // namespace mezzo
