// Shared by the pooling kernels: geometry, and vectors of channels. Included once per instruction
// set, like simd-inl.h.
#if defined(MEZZO_KERNELS_CPU_POOL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEZZO_KERNELS_CPU_POOL_INL_H_
#undef MEZZO_KERNELS_CPU_POOL_INL_H_
#else
#define MEZZO_KERNELS_CPU_POOL_INL_H_
#endif

#include <algorithm>

#include "mezzo/core/math.h"
#include "mezzo/kernels/cpu/simd/simd-inl.h"
#include "mezzo/ops/pool_attrs.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {

using U32Vec = hn::Vec<U32>;

// Loads a vector of positions in windows, stored as u8 or i32.
HWY_INLINE U32Vec load_positions(const std::uint8_t* p) {
  return hn::PromoteTo(U32(), hn::LoadU(hn::Rebind<std::uint8_t, F32>(), p));
}
HWY_INLINE U32Vec load_positions(const std::int32_t* p) {
  return hn::LoadU(U32(), reinterpret_cast<const std::uint32_t*>(p));
}
HWY_INLINE void store_positions(U32Vec v, std::uint8_t* p) {
  const hn::Rebind<std::uint8_t, F32> u8;
  hn::StoreU(hn::TruncateTo(u8, v), u8, p);
}
HWY_INLINE void store_positions(U32Vec v, std::int32_t* p) {
  hn::StoreU(v, U32(), reinterpret_cast<std::uint32_t*>(p));
}

// The first `count` < lanes() positions; the others are read as 0 and not written.
template <class P>
HWY_INLINE U32Vec load_positions_part(const P* p, std::int64_t count) {
  P values[kMaxLanes] = {};
  std::memcpy(values, p, part_bytes<P>(count));
  return load_positions(values);
}
template <class P>
HWY_INLINE void store_positions_part(U32Vec v, P* p, std::int64_t count) {
  P values[kMaxLanes];
  store_positions(v, values);
  std::memcpy(p, values, part_bytes<P>(count));
}

// `p` is before `end`, so the count is at least 1. gcc cannot know that if vectors have one lane.
template <class T>
HWY_INLINE std::int64_t count_before(const T* end, const T* p) {
  return std::max<std::int64_t>(end - p, 1);
}

// Loads and stores of whole vectors where possible. If channels do not fill a vector, its last
// lanes belong to the next pixels: whole vectors cost nothing extra, parts do. What is read there
// is not used, and what is written there is overwritten if pixels are written in order. The vector
// must be cut only before `end`, the end of the array or of a thread's share of it.
template <class T>
HWY_INLINE F32Vec load_before(const T* end, const T* p) {
  const std::int64_t count = count_before(end, p);
  return count >= lanes() ? load(p) : load_part(p, count);
}
template <class T>
HWY_INLINE void store_before(const T* end, F32Vec v, T* p) {
  const std::int64_t count = count_before(end, p);
  count >= lanes() ? store(v, p) : store_part(v, p, count);
}
template <class P>
HWY_INLINE U32Vec load_positions_before(const P* end, const P* p) {
  const std::int64_t count = count_before(end, p);
  return count >= lanes() ? load_positions(p) : load_positions_part(p, count);
}
template <class P>
HWY_INLINE void store_positions_before(const P* end, U32Vec v, P* p) {
  const std::int64_t count = count_before(end, p);
  count >= lanes() ? store_positions(v, p) : store_positions_part(v, p, count);
}

// load_before() and store_before(), or whole vectors if all are known to lie before `end`. For
// loops that are too short for a comparison in each iteration.
template <bool kCut, class T>
HWY_INLINE F32Vec load_row(const T* end, const T* p) {
  return kCut ? load_before(end, p) : load(p);
}
template <bool kCut, class T>
HWY_INLINE void store_row(const T* end, F32Vec v, T* p) {
  kCut ? store_before(end, v, p) : store(v, p);
}
template <bool kCut, class P>
HWY_INLINE U32Vec load_positions_row(const P* end, const P* p) {
  return kCut ? load_positions_before(end, p) : load_positions(p);
}
template <bool kCut, class P>
HWY_INLINE void store_positions_row(const P* end, U32Vec v, P* p) {
  kCut ? store_positions_before(end, v, p) : store_positions(v, p);
}

// Rows [top, bottom) and columns [left, right) of a grid.
struct Rect {
  std::int64_t top;
  std::int64_t bottom;
  std::int64_t left;
  std::int64_t right;
};

// A row of a grid of pixels or windows. `end`: the elements of the result before the end of the
// rows that its thread writes, in order.
struct GridRow {
  std::int64_t image;
  std::int64_t row;
  std::int64_t end;
};

// The geometry of images [n, c, rows.in, columns.in] and windows [n, c, rows.out, columns.out],
// both channels-last.
struct Pool {
  Pool(const Pool2dAttrs& a, const Shape& image, const Shape& windows)
      : n(image[0]),
        c(image[1]),
        rows(rows_of(a, image[2], windows[2])),
        columns(columns_of(a, image[3], windows[3])),
        attrs(a) {}

  std::int64_t pixel(std::int64_t image, std::int64_t h, std::int64_t w) const {
    return ((image * rows.in + h) * columns.in + w) * c;
  }
  std::int64_t window(std::int64_t image, std::int64_t row, std::int64_t column) const {
    return ((image * rows.out + row) * columns.out + column) * c;
  }
  std::int64_t pixel_elements() const { return pixel(n, 0, 0); }
  std::int64_t window_elements() const { return window(n, 0, 0); }
  // The pixels of a window that lie in the image.
  Rect pixels_of(std::int64_t row, std::int64_t column) const {
    return {rows.first(row), rows.last(row), columns.first(column), columns.last(column)};
  }
  std::int64_t last_pixel(std::int64_t image, const Rect& pixels) const {
    return pixel(image, pixels.bottom - 1, pixels.right - 1);
  }
  // A pixel's position in its window, counted row by row.
  std::uint32_t position(std::int64_t row, std::int64_t column, std::int64_t h,
                         std::int64_t w) const {
    return static_cast<std::uint32_t>((h - rows.start(row)) * columns.kernel + w -
                                      columns.start(column));
  }
  float divisor(std::int64_t row, std::int64_t column) const {
    return static_cast<float>(pool_divisor(attrs, rows, columns, row, column));
  }

  bool has_separate_windows() const {
    return rows.stride >= rows.kernel && columns.stride >= columns.kernel;
  }

  // Calls body(pool, grid row) for every row of a grid, in parallel. Each thread has its own body,
  // from make_body(). The pool passed is a local copy to which no pointer leads. Otherwise the
  // compiler would reload it after every store through a byte pointer.
  template <class MakeBody>
  void for_each_row_by(std::int64_t count_rows, std::int64_t count_columns,
                       const MakeBody& make_body) const {
    // The number of elements read per position.
    const std::int64_t work = c * std::max(rows.kernel * columns.kernel / 4, std::int64_t{1});
    const std::int64_t grain = kElementGrain / std::max(work * count_columns, std::int64_t{1});
    parallel_for(n * count_rows, grain, [&](std::int64_t begin, std::int64_t end) HWY_ATTR {
      const Pool pool = *this;
      auto body = make_body();
      GridRow at{begin / count_rows, begin % count_rows, end * count_columns * c};
      for (std::int64_t i = begin; i < end; ++i) {
        body(pool, at);
        if (++at.row == count_rows) at = {at.image + 1, 0, at.end};
      }
    });
  }
  template <class Body>
  void for_each_row(std::int64_t count_rows, std::int64_t count_columns, const Body& body) const {
    for_each_row_by(count_rows, count_columns, [&] {
      return [&](const Pool& pool, const GridRow& at) HWY_ATTR { body(pool, at); };
    });
  }
  template <class Body>
  void for_each_window_row(const Body& body) const {
    for_each_row(rows.out, columns.out, body);
  }
  template <class Body>
  void for_each_pixel_row(const Body& body) const {
    for_each_row(rows.in, columns.in, body);
  }

  std::int64_t n;
  std::int64_t c;
  PoolAxis rows;
  PoolAxis columns;
  Pool2dAttrs attrs;
};

// The windows [first, last).
struct WindowRange {
  std::int64_t first;
  std::int64_t last;
};

// The windows that lie in the image as a whole.
inline WindowRange whole_windows(const PoolAxis& axis) {
  const std::int64_t first = ceil_div(axis.before, axis.stride);
  const std::int64_t room = axis.in + axis.before - axis.kernel;
  const std::int64_t last = room < 0 ? 0 : std::min(room / axis.stride + 1, axis.out);
  return {first, std::max(first, last)};
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
