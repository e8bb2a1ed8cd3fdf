// Max pooling: the largest pixel of each window, and its position. Included once per instruction
// set, like simd-inl.h.
#if defined(MEZZO_KERNELS_CPU_MAX_POOL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEZZO_KERNELS_CPU_MAX_POOL_INL_H_
#undef MEZZO_KERNELS_CPU_MAX_POOL_INL_H_
#else
#define MEZZO_KERNELS_CPU_MAX_POOL_INL_H_
#endif

#include <algorithm>
#include <limits>

#include "mezzo/kernels/cpu/norm/normalized-inl.h"
#include "mezzo/kernels/cpu/pool/pool-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {

// The largest pixels of a window, one per channel, and their positions.
struct Largest {
  F32Vec value;
  U32Vec position;
};

// Compares a pixel with the largest so far.
HWY_INLINE void contend(F32Vec v, std::uint32_t position, Largest& largest) {
  // NaN compares false with everything, so it is tested for; once it is largest, it stays.
  const auto wins = hn::Or(hn::Gt(v, largest.value), hn::IsNaN(v));
  largest.value = hn::IfThenElse(wins, v, largest.value);
  largest.position =
      hn::IfThenElse(hn::RebindMask(U32(), wins), hn::Set(U32(), position), largest.position);
}

// The largest of `pixels`. The first of them is at `p` and has the position `first`.
template <bool kCut, class T>
HWY_INLINE Largest largest_of(const Pool& pool, const Rect& pixels, const T* p, const T* end,
                              std::uint32_t first) {
  Largest largest{hn::Set(F32(), -std::numeric_limits<float>::infinity()), hn::Set(U32(), first)};
  const std::int64_t row_step = pool.columns.in * pool.c;
  const auto width = static_cast<std::uint32_t>(pool.columns.kernel);
  for (std::int64_t h = pixels.top; h < pixels.bottom; ++h, p += row_step, first += width) {
    const T* pixel = p;
    std::uint32_t position = first;
    for (std::int64_t w = pixels.left; w < pixels.right; ++w, pixel += pool.c, ++position) {
      contend(load_row<kCut>(end, pixel), position, largest);
    }
  }
  return largest;
}

// A row of adjacent 2 x 2 windows, the most common size, that lie in the image as a whole.
template <class T, class P>
struct WindowRow {
  const T* x;      // the first pixel
  const T* below;  // the one below it
  T* out;
  P* positions;
  const T* x_end;
  const T* out_end;
  const P* positions_end;
  std::int64_t count;   // windows
  std::int64_t stride;  // elements from one window's first pixel to the next's
  std::int64_t c;

  bool reaches_end() const {
    const std::int64_t last = (count - 1) * c;
    // positions_end - positions equals out_end - out.
    return x_end - below < (count - 1) * stride + 2 * c + lanes() ||
           out_end - out < last + c + lanes();
  }
};

template <bool kCut, class T, class P>
HWY_NOINLINE void max_row(const WindowRow<T, P>& row) {
  const std::int64_t c = row.c;
  const T* x = row.x;
  const T* below = row.below;
  T* out = row.out;
  P* positions = row.positions;
  for (std::int64_t i = 0; i < row.count; ++i, x += row.stride, below += row.stride) {
    for (std::int64_t channel = 0; channel < c; channel += lanes()) {
      Largest largest{load_row<kCut>(row.x_end, x + channel), hn::Zero(U32())};
      contend(load_row<kCut>(row.x_end, x + c + channel), 1, largest);
      contend(load_row<kCut>(row.x_end, below + channel), 2, largest);
      contend(load_row<kCut>(row.x_end, below + c + channel), 3, largest);
      store_row<kCut>(row.out_end, largest.value, out + channel);
      store_positions_row<kCut>(row.positions_end, largest.position, positions + channel);
    }
    out += c;
    positions += c;
  }
}

// The image's rows under a row of windows: their first pixel, and the end of the array.
template <class T>
struct RowsUnder {
  const T* first;
  const T* end;
};

// Rows as they are stored.
template <class T>
class StoredRows {
 public:
  StoredRows(const Pool& pool, const Tensor& x)
      : x_(x.data<T>()), end_(x_ + pool.pixel_elements()) {}

  RowsUnder<T> under(const Pool& pool, const GridRow& at) const {
    return {x_ + pool.pixel(at.image, pool.rows.first(at.row), 0), end_};
  }

 private:
  const T* x_;
  const T* end_;
};

// Rows that are normalised into a buffer, which stays in the first-level cache. Rows that the
// previous windows have read, too, are moved within it.
template <class T>
class NormalizedRows {
 public:
  NormalizedRows(const Pool& pool, const Tensor& x, const kernels::NormLines& norm)
      : norm_(norm),
        x_(x.data<T>()),
        rows_(empty({pool.rows.kernel, pool.pixel(0, 1, 0)}, x.dtype())) {}

  RowsUnder<T> under(const Pool& pool, const GridRow& at) {
    const std::int64_t top = pool.rows.first(at.row);
    const std::int64_t bottom = pool.rows.last(at.row);
    const std::int64_t width = pool.pixel(0, 1, 0);
    T* const rows = rows_.mutable_data<T>();
    const bool goes_on = at.image == image_ && top >= top_ && top < bottom_;
    const std::int64_t known = goes_on ? bottom_ - top : 0;
    if (known > 0 && top > top_) {
      std::copy_n(rows + (top - top_) * width, known * width, rows);
    }
    normalize_rows(norm_, x_ + pool.pixel(at.image, top + known, 0),
                   (bottom - top - known) * pool.columns.in, pool.c, rows + known * width);
    image_ = at.image;
    top_ = top;
    bottom_ = bottom;
    return {rows, rows + rows_.numel()};
  }

 private:
  kernels::NormLines norm_;
  const T* x_;
  Tensor rows_;
  std::int64_t image_ = -1;
  std::int64_t top_ = 0;
  std::int64_t bottom_ = 0;
};

// The body of one thread for each row of windows.
template <class Pick, class Rows>
struct RowPicker {
  const Pick& pick;
  Rows rows;

  void operator()(const Pool& pool, const GridRow& at) { pick(pool, at, rows.under(pool, at)); }
};
template <class Pick, class Rows>
RowPicker(const Pick&, Rows) -> RowPicker<Pick, Rows>;

// make_rows() returns the source of rows for one thread.
template <class T, class P, class MakeRows>
void max_windows(const Pool& all, const MakeRows& make_rows, T* out, P* positions) {
  const bool is_2x2 = all.rows.kernel == 2 && all.columns.kernel == 2;
  const WindowRange whole_rows = is_2x2 ? whole_windows(all.rows) : WindowRange{};
  const WindowRange whole_columns = whole_windows(all.columns);
  const auto pick_row = [&](const Pool& pool, const GridRow& at, const RowsUnder<T>& x) HWY_ATTR {
    const T* const x_end = x.end;
    const std::int64_t row_step = pool.columns.in * pool.c;
    const T* const out_end = out + at.end;
    const P* const positions_end = positions + at.end;
    const bool in_whole_row = at.row >= whole_rows.first && at.row < whole_rows.last;
    const WindowRange whole = in_whole_row ? whole_columns : WindowRange{};
    for (std::int64_t column = 0; column < pool.columns.out;) {
      const Rect pixels = pool.pixels_of(at.row, column);
      const T* const p = x.first + pixels.left * pool.c;
      const std::int64_t window = pool.window(at.image, at.row, column);
      if (column == whole.first && column < whole.last) {
        const WindowRow<T, P> row{p,
                                  p + row_step,
                                  out + window,
                                  positions + window,
                                  x_end,
                                  out_end,
                                  positions_end,
                                  whole.last - whole.first,
                                  pool.columns.stride * pool.c,
                                  pool.c};
        row.reaches_end() ? max_row<true>(row) : max_row<false>(row);
        column = whole.last;
        continue;
      }
      const std::uint32_t first = pool.position(at.row, column, pixels.top, pixels.left);
      const T* const last =
          x.first + (pixels.bottom - 1 - pixels.top) * row_step + (pixels.right - 1) * pool.c;
      for (std::int64_t channel = 0; channel < pool.c; channel += lanes()) {
        const bool cut = x_end - last < channel + lanes();
        const Largest largest = cut ? largest_of<true>(pool, pixels, p + channel, x_end, first)
                                    : largest_of<false>(pool, pixels, p + channel, x_end, first);
        store_before(out_end, largest.value, out + window + channel);
        store_positions_before(positions_end, largest.position, positions + window + channel);
      }
      ++column;
    }
  };
  all.for_each_row_by(all.rows.out, all.columns.out, [&] {
    return RowPicker{pick_row, make_rows()};
  });
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
