// The gradient of max pooling if channels do not fill a vector. Included once per instruction set,
// like simd-inl.h.
#if defined(MEZZO_KERNELS_CPU_MAX_POOL_NARROW_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEZZO_KERNELS_CPU_MAX_POOL_NARROW_INL_H_
#undef MEZZO_KERNELS_CPU_MAX_POOL_NARROW_INL_H_
#else
#define MEZZO_KERNELS_CPU_MAX_POOL_NARROW_INL_H_
#endif

#include <algorithm>

#include "mezzo/kernels/cpu/pool/max_pool_grad-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {

// A row of pixels of several adjacent windows in one vector. For touching windows, if all channels
// of their columns fit.
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

  std::int64_t count = 0;  // windows; 0 if none fit
  // For each pixel and channel: the lane of its window's channel, and its position in the first
  // row.
  decltype(hn::IndicesFromVec(F32(), hn::Vec<hn::RebindToSigned<F32>>())) window_lanes;
  U32Vec position;
};

// A row of pixels under touching windows.
template <class T, class P>
struct PixelRow {
  const T* grad = nullptr;  // of the first window
  const P* positions = nullptr;
  T* x = nullptr;
  const T* grad_end = nullptr;
  const P* positions_end = nullptr;
  const T* x_end = nullptr;
  std::int64_t groups = 0;     // groups of adjacent windows
  std::int64_t grad_step = 0;  // elements from group to group
  std::int64_t x_step = 0;

  bool reaches_end() const {
    // positions_end - positions equals grad_end - grad.
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

// Writes a window's pixels in row `h` of the image; `w` is the first that it writes.
template <class T, class P>
HWY_INLINE void spread_window_row(const Pool& pool, const GridRow& at, std::int64_t column,
                                  std::int64_t h, std::int64_t w, const PixelRow<T, P>& row) {
  const auto chosen = load_positions_before(row.positions_end, row.positions);
  const auto value = load_before(row.grad_end, row.grad);
  const bool row_inside = h < pool.rows.last(at.row);
  const std::int64_t right = pool.columns.last(column);
  const std::int64_t end = first_written(pool.columns, column + 1);
  std::uint32_t position = pool.position(at.row, column, h, w);
  for (T* to = row.x; w < end; ++w, to += pool.c, ++position) {
    const bool inside = row_inside && w < right;
    store_before(row.x_end, where_chosen(chosen, position, inside, value), to);
  }
}

// The first element that another thread writes.
inline std::int64_t end_of_share(const Pool& pool, const GridRow& at) {
  const std::int64_t row = at.end / (pool.columns.out * pool.c);
  return pool.pixel(row / pool.rows.out, first_written(pool.rows, row % pool.rows.out), 0);
}

// Writes all pixels of row h of the image: those under `row.groups` groups from the window
// `touching` on, and those under the other windows.
template <class T, class P>
HWY_INLINE void spread_pixels(const Pool& pool, const GridRow& at, std::int64_t h,
                              const SideBySide& side, std::int64_t touching, PixelRow<T, P> row) {
  const bool inside = h < pool.rows.last(at.row);
  for (std::int64_t column = 0; column < pool.columns.out;) {
    const std::int64_t w = first_written(pool.columns, column);
    PixelRow<T, P> rest = row;
    rest.grad += column * pool.c;
    rest.positions += column * pool.c;
    rest.x += w * pool.c;
    if (inside && column == touching && row.groups > 0) {
      const std::uint32_t first = pool.position(at.row, column, h, w);
      rest.reaches_end() ? spread_row<true>(side, first, rest)
                         : spread_row<false>(side, first, rest);
      column += row.groups * side.count;
    } else {
      spread_window_row(pool, at, column, h, w, rest);
      ++column;
    }
  }
}

// spread_chosen() if channels do not fill a vector: pixels are written in order.
template <class T, class P>
void spread_chosen_narrow(const Pool& all, const T* grad, const P* positions, T* x) {
  const SideBySide side(all);
  const WindowRange touching = touching_windows(all.columns);
  const std::int64_t groups = side.count > 0 ? (touching.last - touching.first) / side.count : 0;
  all.for_each_window_row([&](const Pool& pool, const GridRow& at) HWY_ATTR {
    const std::int64_t window = pool.window(at.image, at.row, 0);
    PixelRow<T, P> row{.grad = grad + window,
                       .positions = positions + window,
                       .grad_end = grad + pool.window_elements(),
                       .positions_end = positions + pool.window_elements(),
                       .x_end = x + end_of_share(pool, at),
                       .groups = groups,
                       .grad_step = side.count * pool.c,
                       .x_step = side.count * pool.c * pool.columns.kernel};
    const std::int64_t end = first_written(pool.rows, at.row + 1);
    for (std::int64_t h = first_written(pool.rows, at.row); h < end; ++h) {
      row.x = x + pool.pixel(at.image, h, 0);
      spread_pixels(pool, at, h, side, touching.first, row);
    }
  });
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
