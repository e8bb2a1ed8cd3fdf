// The gradient of max pooling. Included once per instruction set, like simd-inl.h.
#if defined(MEZZO_KERNELS_CPU_MAX_POOL_GRAD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEZZO_KERNELS_CPU_MAX_POOL_GRAD_INL_H_
#undef MEZZO_KERNELS_CPU_MAX_POOL_GRAD_INL_H_
#else
#define MEZZO_KERNELS_CPU_MAX_POOL_GRAD_INL_H_
#endif

#include <algorithm>

#include "mezzo/kernels/cpu/pool/pool-inl.h"
#include "mezzo/kernels/cpu/pool/pool_gather-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {

// The first pixel that a window writes. A window writes its own pixels, and those up to the next
// one.
inline std::int64_t first_written(const PoolAxis& axis, std::int64_t window) {
  if (window == 0) return 0;
  return window < axis.out ? std::min(axis.first(window), axis.in) : axis.in;
}

// The pixels that a window of a grid row writes.
inline Rect written_by(const Pool& pool, const GridRow& at, std::int64_t column) {
  return {first_written(pool.rows, at.row), first_written(pool.rows, at.row + 1),
          first_written(pool.columns, column), first_written(pool.columns, column + 1)};
}

// `value` where the pixel was chosen, else 0.
HWY_INLINE F32Vec where_chosen(U32Vec chosen, std::uint32_t position, bool inside, F32Vec value) {
  const auto here = hn::Eq(chosen, hn::Set(U32(), position));
  return inside ? hn::IfThenElseZero(hn::RebindMask(F32(), here), value) : hn::Zero(F32());
}

// For windows that do not overlap. Each writes its own pixels and those up to the next window, so
// that gradient and positions are read once. `x` is where the image of this row begins.
template <class T, class P>
void spread_window(const Pool& pool, const GridRow& at, std::int64_t column, const T* grad,
                   const P* positions, T* x) {
  const Rect pixels = written_by(pool, at, column);
  const std::int64_t bottom = pool.rows.last(at.row);
  const std::int64_t right = pool.columns.last(column);
  for (std::int64_t channel = 0; channel < pool.c; channel += lanes()) {
    // Cut at the last channel: a whole vector would reach pixels that are not written again.
    const std::int64_t end = pool.c - channel;
    const auto chosen = load_positions_before(positions + pool.c, positions + channel);
    const auto value = load_before(grad + pool.c, grad + channel);
    for (std::int64_t h = pixels.top; h < pixels.bottom; ++h) {
      T* to = x + pool.pixel(0, h, pixels.left) + channel;
      std::uint32_t position = pool.position(at.row, column, h, pixels.left);
      for (std::int64_t w = pixels.left; w < pixels.right; ++w, to += pool.c, ++position) {
        const bool inside = h < bottom && w < right;
        store_before(to + end, where_chosen(chosen, position, inside, value), to);
      }
    }
  }
}

// Adjacent 2 x 2 windows, the most common size, that write these pixels only.
template <bool kCut, class T, class P>
HWY_NOINLINE void spread_fours(std::int64_t count, std::int64_t c, std::int64_t row_step,
                               const T* grad, const P* positions, T* x) {
  for (std::int64_t i = 0; i < count; ++i, grad += c, positions += c, x += 2 * c) {
    for (std::int64_t channel = 0; channel < c; channel += lanes()) {
      const auto chosen = load_positions_row<kCut>(positions + c, positions + channel);
      const auto value = load_row<kCut>(grad + c, grad + channel);
      const auto put = [&](T* pixel, std::uint32_t position) HWY_ATTR {
        const auto result = where_chosen(chosen, position, true, value);
        store_row<kCut>(pixel + c, result, pixel + channel);
      };
      put(x, 0);
      put(x + c, 1);
      put(x + row_step, 2);
      put(x + row_step + c, 3);
    }
  }
}

// The windows of an axis that write exactly `stride` pixels.
inline WindowRange touching_windows(const PoolAxis& axis) {
  const std::int64_t last = axis.out - 1;
  const bool last_touches = axis.in - axis.start(last) == axis.stride;
  const std::int64_t first = axis.before > 0 ? 1 : 0;
  return {first, std::max(first, last + (last_touches ? 1 : 0))};
}

template <class T, class P>
void spread_chosen(const Pool& all, const T* grad, const P* positions, T* x) {
  const Size2d two = 2;
  const bool is_2x2 = all.attrs.kernel == two && all.attrs.stride == two;
  const WindowRange fours_rows = is_2x2 ? touching_windows(all.rows) : WindowRange{};
  const WindowRange fours_columns = touching_windows(all.columns);
  all.for_each_window_row([&](const Pool& pool, const GridRow& at) HWY_ATTR {
    const bool in_fours = at.row >= fours_rows.first && at.row < fours_rows.last;
    const WindowRange fours = in_fours ? fours_columns : WindowRange{};
    T* const image = x + pool.pixel(at.image, 0, 0);
    for (std::int64_t column = 0; column < pool.columns.out;) {
      const std::int64_t window = pool.window(at.image, at.row, column);
      if (column == fours.first && column < fours.last) {
        T* const first = image + pool.pixel(0, pool.rows.start(at.row), pool.columns.start(column));
        const auto run =
            pool.c % lanes() == 0 ? spread_fours<false, T, P> : spread_fours<true, T, P>;
        run(fours.last - fours.first, pool.c, pool.columns.in * pool.c, grad + window,
            positions + window, first);
        column = fours.last;
      } else {
        spread_window(pool, at, column, grad + window, positions + window, image);
        ++column;
      }
    }
  });
}

template <class T, class P>
void gather_chosen(const Pool& all, const T* grad, const P* positions, T* x) {
  const T* const grad_end = grad + all.window_elements();
  const P* const positions_end = positions + all.window_elements();
  const auto position_of = [](const Pool& pool, const WindowOver& over) {
    return pool.position(over.row, over.column, over.h, over.w);
  };
  gather(all, x, position_of,
         [&]<bool kCut>(std::int64_t element, std::uint32_t position) HWY_ATTR {
           const auto chosen = load_positions_row<kCut>(positions_end, positions + element);
           const auto value = load_row<kCut>(grad_end, grad + element);
           return where_chosen(chosen, position, true, value);
         });
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
