// The gradient of the largest pixels of windows. Included once per instruction set, like
// simd-inl.h.
#if defined(MEZZO_KERNELS_CPU_MAX_POOL_GRAD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEZZO_KERNELS_CPU_MAX_POOL_GRAD_INL_H_
#undef MEZZO_KERNELS_CPU_MAX_POOL_GRAD_INL_H_
#else
#define MEZZO_KERNELS_CPU_MAX_POOL_GRAD_INL_H_
#endif

#include <algorithm>
#include <vector>

#include "mezzo/kernels/cpu/pool-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {

// The first pixel that a window writes: its own, and those between it and the next one.
std::int64_t first_written(const PoolAxis& axis, std::int64_t window) {
  if (window == 0) return 0;
  return window < axis.out ? std::min(axis.first(window), axis.in) : axis.in;
}

// The pixels that a window of a grid row writes.
Rect written_by(const Pool& pool, const GridRow& at, std::int64_t column) {
  return {first_written(pool.rows, at.row), first_written(pool.rows, at.row + 1),
          first_written(pool.columns, column), first_written(pool.columns, column + 1)};
}

// `value` where the pixel was chosen, else 0.
HWY_INLINE F32Vec where_chosen(U32Vec chosen, std::uint32_t position, bool inside, F32Vec value) {
  const auto here = hn::Eq(chosen, hn::Set(U32(), position));
  return inside ? hn::IfThenElseZero(hn::RebindMask(F32(), here), value) : hn::Zero(F32());
}

// For windows that do not overlap: each writes its own pixels and those between it and the next
// one, so that gradient and positions are read once. `x` is where the image of this row begins.
template <class T, class P>
void spread_window(const Pool& pool, const GridRow& at, std::int64_t column, const T* grad,
                   const P* positions, T* x) {
  const Rect pixels = written_by(pool, at, column);
  const std::int64_t bottom = pool.rows.last(at.row);
  const std::int64_t right = pool.columns.last(column);
  for (std::int64_t channel = 0; channel < pool.c; channel += lanes()) {
    // A whole vector would reach into pixels that are not written again.
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

// Windows of 2 x 2 pixels side by side, the commonest, that write these pixels only.
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

// The windows of an axis that write as many pixels as they are apart.
Windows touching_windows(const PoolAxis& axis) {
  const std::int64_t last = axis.out - 1;
  const bool last_touches = axis.in - axis.start(last) == axis.stride;
  const std::int64_t first = axis.before > 0 ? 1 : 0;
  return {first, std::max(first, last + (last_touches ? 1 : 0))};
}

template <class T, class P>
void spread_chosen(const Pool& all, const T* grad, const P* positions, T* x) {
  const Size2d two = 2;
  const bool is_2x2 = all.attrs.kernel == two && all.attrs.stride == two;
  const Windows fours_rows = is_2x2 ? touching_windows(all.rows) : Windows{};
  const Windows fours_columns = touching_windows(all.columns);
  all.for_each_window_row([&](const Pool& pool, const GridRow& at) HWY_ATTR {
    const bool in_fours = at.row >= fours_rows.first && at.row < fours_rows.last;
    const Windows fours = in_fours ? fours_columns : Windows{};
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

// The pixels of one row of several windows side by side, in one vector: where the channels of all
// their columns fit, and windows touch.
struct SideBySide {
  explicit SideBySide(const Pool& pool) {
    const std::int64_t per_window = pool.c * pool.columns.kernel;
    const bool touching = pool.columns.stride == pool.columns.kernel;
    count = touching ? lanes() / std::max<std::int64_t>(per_window, 1) : 0;
    std::int32_t from[kMaxLanes] = {};
    std::uint32_t columns[kMaxLanes] = {};
    for (std::int64_t lane = 0; lane < count * per_window; ++lane) {
      from[lane] = static_cast<std::int32_t>(lane / per_window * pool.c + lane % pool.c);
      columns[lane] = static_cast<std::uint32_t>(lane / pool.c % pool.columns.kernel);
    }
    window_lanes = hn::IndicesFromVec(F32(), hn::LoadU(hn::RebindToSigned<F32>(), from));
    position = hn::LoadU(U32(), columns);
  }

  std::int64_t count = 0;  // of windows
  // For each pixel and channel, the lane of its window's channel; and its position in a first row.
  decltype(hn::IndicesFromVec(F32(), hn::Vec<hn::RebindToSigned<F32>>())) window_lanes;
  U32Vec position;
};

// A row of pixels under windows that touch.
template <class T, class P>
struct PixelRow {
  const T* grad;  // of the first window
  const P* positions;
  T* x;
  const T* grad_end;
  const P* positions_end;
  const T* x_end;
  std::int64_t groups;     // of windows side by side
  std::int64_t grad_step;  // elements from group to group
  std::int64_t x_step;

  bool reaches_end() const {
    // The positions end where the gradients do.
    return grad_end - grad < (groups - 1) * grad_step + lanes() ||
           x_end - x < (groups - 1) * x_step + lanes();
  }
};

template <bool kCut, class T, class P>
HWY_NOINLINE void spread_row(const SideBySide& side, std::uint32_t position,
                             const PixelRow<T, P>& row) {
  const auto window_lanes = side.window_lanes;
  const auto here = hn::Add(side.position, hn::Set(U32(), position));
  const T* grad = row.grad;
  const P* positions = row.positions;
  T* x = row.x;
  for (std::int64_t i = 0; i < row.groups; ++i, x += row.x_step) {
    const auto chosen = hn::BitCast(F32(), load_positions_row<kCut>(row.positions_end, positions));
    const auto value = load_row<kCut>(row.grad_end, grad);
    const auto spread = hn::BitCast(U32(), hn::TableLookupLanes(chosen, window_lanes));
    const auto is_here = hn::RebindMask(F32(), hn::Eq(spread, here));
    const auto result = hn::IfThenElseZero(is_here, hn::TableLookupLanes(value, window_lanes));
    store_row<kCut>(row.x_end, result, x);
    positions += row.grad_step;
    grad += row.grad_step;
  }
}

// The same for channels that do not fill a vector: pixels are written in order.
template <class T, class P>
void spread_chosen_narrow(const Pool& all, const T* grad, const P* positions, T* x) {
  const T* const grad_end = grad + all.window_elements();
  const P* const positions_end = positions + all.window_elements();
  const SideBySide side(all);
  const Windows whole = touching_windows(all.columns);
  const std::int64_t groups = side.count > 0 ? (whole.last - whole.first) / side.count : 0;
  all.for_each_window_row([&](const Pool& pool, const GridRow& at) HWY_ATTR {
    const std::int64_t end_row = at.end / (pool.columns.out * pool.c);
    const T* const end = x + pool.pixel(end_row / pool.rows.out,
                                        first_written(pool.rows, end_row % pool.rows.out), 0);
    const std::int64_t end_h = first_written(pool.rows, at.row + 1);
    for (std::int64_t h = first_written(pool.rows, at.row); h < end_h; ++h) {
      const bool row_inside = h < pool.rows.last(at.row);
      for (std::int64_t column = 0; column < pool.columns.out;) {
        const std::int64_t window = pool.window(at.image, at.row, column);
        std::int64_t w = first_written(pool.columns, column);
        T* to = x + pool.pixel(at.image, h, w);
        std::uint32_t position = pool.position(at.row, column, h, w);
        if (row_inside && column == whole.first && groups > 0) {
          const PixelRow<T, P> row{
              grad + window, positions + window,  to,
              grad_end,      positions_end,       end,
              groups,        side.count * pool.c, side.count * pool.c * pool.columns.kernel};
          row.reaches_end() ? spread_row<true>(side, position, row)
                            : spread_row<false>(side, position, row);
          column += groups * side.count;
          continue;
        }
        const auto chosen = load_positions_before(positions_end, positions + window);
        const auto value = load_before(grad_end, grad + window);
        const std::int64_t right = pool.columns.last(column);
        const std::int64_t end_w = first_written(pool.columns, column + 1);
        for (; w < end_w; ++w, to += pool.c, ++position) {
          const bool inside = row_inside && w < right;
          store_before(end, where_chosen(chosen, position, inside, value), to);
        }
        ++column;
      }
    }
  });
}

template <class T, class P>
void gather_chosen(const Pool& all, const T* grad, const P* positions, T* x) {
  const T* const grad_end = grad + all.window_elements();
  const P* const positions_end = positions + all.window_elements();
  const std::vector<Windows> over = windows_over_columns(all);
  all.for_each_pixel_row([&](const Pool& pool, const GridRow& at) HWY_ATTR {
    const std::int64_t top = pool.rows.first_over(at.row);
    const std::int64_t bottom = pool.rows.last_over(at.row);
    T* to = x + pool.pixel(at.image, at.row, 0);
    for (std::int64_t w = 0; w < pool.columns.in; ++w, to += pool.c) {
      const auto [left, right] = over[static_cast<std::size_t>(w)];
      for (std::int64_t channel = 0; channel < pool.c; channel += lanes()) {
        auto total = hn::Zero(F32());
        for (std::int64_t row = top; row < bottom; ++row) {
          for (std::int64_t column = left; column < right; ++column) {
            const std::int64_t window = pool.window(at.image, row, column) + channel;
            const auto chosen = load_positions_before(positions_end, positions + window);
            const auto value = load_before(grad_end, grad + window);
            const std::uint32_t position = pool.position(row, column, at.row, w);
            total = hn::Add(total, where_chosen(chosen, position, true, value));
          }
        }
        store_before(x + at.end, total, to + channel);
      }
    }
  });
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
