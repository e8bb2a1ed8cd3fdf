// Pooling in channels-last memory: vectors run over channels, threads over rows of pixels.
//
// Where windows overlap, gradients are gathered, not scattered: every pixel collects from the
// windows over it. Threads then never write to the same place, nothing needs to be zeroed first,
// and a pixel's sum is kept in f32 and rounded once even where 16-bit windows overlap.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mezzo/kernels/cpu/pool.cpp"
#include <algorithm>
#include <limits>

#include <hwy/foreach_target.h>

#include "mezzo/kernels/cpu/layout.h"
#include "mezzo/kernels/cpu/simd-inl.h"
#include "mezzo/kernels/kernel.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/pool_attrs.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {

using U32Vec = hn::Vec<U32>;

// Positions in a window, a vector of u8 or i32 in memory.
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

// Reading and writing `count` <= lanes() channels.
template <class T>
HWY_INLINE F32Vec load_channels(const T* p, std::int64_t count) {
  return count == lanes() ? load(p) : load_part(p, count);
}
template <class T>
HWY_INLINE void store_channels(F32Vec v, T* p, std::int64_t count) {
  count == lanes() ? store(v, p) : store_part(v, p, count);
}
#if HWY_TARGET <= HWY_AVX3
HWY_INLINE U32Vec load_channel_positions(const std::uint8_t* p, std::int64_t count) {
  const hn::Rebind<std::uint8_t, F32> u8;
  return hn::PromoteTo(U32(),
                       hn::MaskedLoad(hn::FirstN(u8, static_cast<std::size_t>(count)), u8, p));
}
#endif
template <class P>
HWY_INLINE U32Vec load_channel_positions(const P* p, std::int64_t count) {
  if (count == lanes()) return load_positions(p);
  P values[kMaxLanes] = {};
  std::memcpy(values, p, part_bytes<P>(count));
  return load_positions(values);
}
template <class P>
HWY_INLINE void store_channel_positions(U32Vec v, P* p, std::int64_t count) {
  if (count == lanes()) {
    store_positions(v, p);
    return;
  }
  P values[kMaxLanes];
  store_positions(v, values);
  std::memcpy(p, values, part_bytes<P>(count));
}

// Rows [top, bottom) and columns [left, right) of a grid.
struct Rect {
  std::int64_t top;
  std::int64_t bottom;
  std::int64_t left;
  std::int64_t right;

  template <class Body>
  HWY_INLINE void for_each(const Body& body) const {
    for (std::int64_t row = top; row < bottom; ++row) {
      for (std::int64_t column = left; column < right; ++column) body(row, column);
    }
  }
};

// Images [n, c, rows.in, columns.in] and windows [n, c, rows.out, columns.out], both channels-last.
struct Pool {
  Pool(const Pool2dAttrs& a, const Shape& image, const Shape& windows)
      : attrs(a),
        n(image[0]),
        c(image[1]),
        rows(rows_of(a, image[2], windows[2])),
        columns(columns_of(a, image[3], windows[3])) {}

  std::int64_t pixel(std::int64_t image, std::int64_t h, std::int64_t w) const {
    return ((image * rows.in + h) * columns.in + w) * c;
  }
  std::int64_t window(std::int64_t image, std::int64_t row, std::int64_t column) const {
    return ((image * rows.out + row) * columns.out + column) * c;
  }
  // The pixels of a window that lie in the image.
  Rect pixels_of(std::int64_t row, std::int64_t column) const {
    return {rows.first(row), rows.last(row), columns.first(column), columns.last(column)};
  }
  // The windows that a pixel is in. Divisions: for once per pixel, not per vector.
  Rect windows_over(std::int64_t h, std::int64_t w) const {
    return {rows.first_over(h), rows.last_over(h), columns.first_over(w), columns.last_over(w)};
  }
  // Where in its window a pixel is, counted row by row.
  std::uint32_t position(std::int64_t row, std::int64_t column, std::int64_t h,
                         std::int64_t w) const {
    return static_cast<std::uint32_t>((h - rows.start(row)) * attrs.kernel.w + w -
                                      columns.start(column));
  }
  float divisor(std::int64_t row, std::int64_t column) const {
    return static_cast<float>(pool_divisor(attrs, rows, columns, row, column));
  }

  bool has_separate_windows() const {
    return rows.stride >= rows.kernel && columns.stride >= columns.kernel;
  }

  // Calls body(image, row, column) for every position of a grid, rows in parallel. `work` is the
  // number of elements read per position.
  template <class Body>
  void for_each(const PoolAxis& axis, std::int64_t count_rows, std::int64_t count_columns,
                const Body& body) const {
    const std::int64_t work = c * std::max(axis.kernel * columns.kernel / 4, std::int64_t{1});
    const std::int64_t grain = kElementGrain / std::max(work * count_columns, std::int64_t{1});
    parallel_for(n * count_rows, grain, [&](std::int64_t begin, std::int64_t end) HWY_ATTR {
      for (std::int64_t i = begin; i < end; ++i) {
        for (std::int64_t column = 0; column < count_columns; ++column) {
          body(i / count_rows, i % count_rows, column);
        }
      }
    });
  }
  template <class Body>
  void for_each_window(const Body& body) const {
    for_each(rows, rows.out, columns.out, body);
  }
  template <class Body>
  void for_each_pixel(const Body& body) const {
    for_each(rows, rows.in, columns.in, body);
  }
  // Calls body(first channel, count) for vectors of channels.
  template <class Body>
  HWY_INLINE void for_channels(const Body& body) const {
    const std::int64_t step = lanes();
    std::int64_t channel = 0;
    for (; channel + step <= c; channel += step) body(channel, step);
    if (channel < c) body(channel, c - channel);
  }

  const Pool2dAttrs& attrs;
  std::int64_t n;
  std::int64_t c;
  PoolAxis rows;
  PoolAxis columns;
};

template <class T, class P>
void max_windows(const Pool& pool, const T* x, T* out, P* positions) {
  pool.for_each_window([&](std::int64_t image, std::int64_t row, std::int64_t column) HWY_ATTR {
    const Rect pixels = pool.pixels_of(row, column);
    const std::int64_t window = pool.window(image, row, column);
    pool.for_channels([&](std::int64_t channel, std::int64_t count) HWY_ATTR {
      auto best = hn::Set(F32(), -std::numeric_limits<float>::infinity());
      auto chosen = hn::Set(U32(), pool.position(row, column, pixels.top, pixels.left));
      pixels.for_each([&](std::int64_t h, std::int64_t w) HWY_ATTR {
        const auto v = load_channels(x + pool.pixel(image, h, w) + channel, count);
        // NaN compares false with everything: it must be let in by name, and then stays.
        const auto wins = hn::Or(hn::Gt(v, best), hn::IsNaN(v));
        best = hn::IfThenElse(wins, v, best);
        const auto here = hn::Set(U32(), pool.position(row, column, h, w));
        chosen = hn::IfThenElse(hn::RebindMask(U32(), wins), here, chosen);
      });
      store_channels(best, out + window + channel, count);
      store_channel_positions(chosen, positions + window + channel, count);
    });
  });
}

// For windows that do not overlap: each writes its own pixels and those between it and the next
// one, so that gradient and positions are read once.
template <class T, class P>
void spread_chosen(const Pool& pool, const T* grad, const P* positions, T* x) {
  const auto first = [](const PoolAxis& axis, std::int64_t window) {
    if (window == 0) return std::int64_t{0};
    return window < axis.out ? std::min(axis.first(window), axis.in) : axis.in;
  };
  pool.for_each_window([&](std::int64_t image, std::int64_t row, std::int64_t column) HWY_ATTR {
    const std::int64_t window = pool.window(image, row, column);
    const Rect pixels{first(pool.rows, row), first(pool.rows, row + 1), first(pool.columns, column),
                      first(pool.columns, column + 1)};
    const std::int64_t bottom = pool.rows.last(row);
    const std::int64_t right = pool.columns.last(column);
    pool.for_channels([&](std::int64_t channel, std::int64_t count) HWY_ATTR {
      const auto chosen = load_channel_positions(positions + window + channel, count);
      const auto value = load_channels(grad + window + channel, count);
      pixels.for_each([&](std::int64_t h, std::int64_t w) HWY_ATTR {
        const auto here = hn::Set(U32(), pool.position(row, column, h, w));
        const auto is_here = hn::RebindMask(F32(), hn::Eq(chosen, here));
        const bool inside = h < bottom && w < right;
        const auto result = inside ? hn::IfThenElseZero(is_here, value) : hn::Zero(F32());
        store_channels(result, x + pool.pixel(image, h, w) + channel, count);
      });
    });
  });
}

template <class T, class P>
void gather_chosen(const Pool& pool, const T* grad, const P* positions, T* x) {
  pool.for_each_pixel([&](std::int64_t image, std::int64_t h, std::int64_t w) HWY_ATTR {
    const std::int64_t pixel = pool.pixel(image, h, w);
    const Rect windows = pool.windows_over(h, w);
    pool.for_channels([&](std::int64_t channel, std::int64_t count) HWY_ATTR {
      auto total = hn::Zero(F32());
      windows.for_each([&](std::int64_t row, std::int64_t column) HWY_ATTR {
        const std::int64_t at = pool.window(image, row, column) + channel;
        const auto chosen = load_channel_positions(positions + at, count);
        const auto here = hn::Set(U32(), pool.position(row, column, h, w));
        const auto is_here = hn::RebindMask(F32(), hn::Eq(chosen, here));
        total = hn::Add(total, hn::IfThenElseZero(is_here, load_channels(grad + at, count)));
      });
      store_channels(total, x + pixel + channel, count);
    });
  });
}

template <class T, class P>
void pick_chosen(const Pool& pool, const T* x, const P* positions, T* out) {
  const std::int64_t width = pool.attrs.kernel.w;
  pool.for_each_window([&](std::int64_t image, std::int64_t row, std::int64_t column) {
    const std::int64_t window = pool.window(image, row, column);
    for (std::int64_t channel = 0; channel < pool.c; ++channel) {
      const auto position = static_cast<std::int64_t>(positions[window + channel]);
      const std::int64_t h = pool.rows.start(row) + position / width;
      const std::int64_t w = pool.columns.start(column) + position % width;
      const bool inside = h >= 0 && h < pool.rows.in && w >= 0 && w < pool.columns.in;
      out[window + channel] = inside ? x[pool.pixel(image, h, w) + channel] : T(0);
    }
  });
}

template <class T>
void mean_windows(const Pool& pool, const T* x, T* out) {
  pool.for_each_window([&](std::int64_t image, std::int64_t row, std::int64_t column) HWY_ATTR {
    const auto divisor = hn::Set(F32(), pool.divisor(row, column));
    const Rect pixels = pool.pixels_of(row, column);
    const std::int64_t window = pool.window(image, row, column);
    pool.for_channels([&](std::int64_t channel, std::int64_t count) HWY_ATTR {
      auto total = hn::Zero(F32());
      pixels.for_each([&](std::int64_t h, std::int64_t w) HWY_ATTR {
        total = hn::Add(total, load_channels(x + pool.pixel(image, h, w) + channel, count));
      });
      store_channels(hn::Div(total, divisor), out + window + channel, count);
    });
  });
}

template <class T>
void gather_shares(const Pool& pool, const T* grad, T* x) {
  pool.for_each_pixel([&](std::int64_t image, std::int64_t h, std::int64_t w) HWY_ATTR {
    const std::int64_t pixel = pool.pixel(image, h, w);
    const Rect windows = pool.windows_over(h, w);
    pool.for_channels([&](std::int64_t channel, std::int64_t count) HWY_ATTR {
      auto total = hn::Zero(F32());
      windows.for_each([&](std::int64_t row, std::int64_t column) HWY_ATTR {
        const auto share = load_channels(grad + pool.window(image, row, column) + channel, count);
        total = hn::Add(total, hn::Div(share, hn::Set(F32(), pool.divisor(row, column))));
      });
      store_channels(total, x + pixel + channel, count);
    });
  });
}

// Calls function.operator()<P>() with the type of positions.
template <class Function>
void visit_positions(const Tensor& positions, Function&& function) {
  if (positions.dtype() == DType::kU8) {
    function.template operator()<std::uint8_t>();
  } else {
    function.template operator()<std::int32_t>();
  }
}

Tensor channels_last(const Tensor& tensor) { return kernels::dense(tensor, Format::kChannelsLast); }

// Positions of other integer types, as users may pass them, become i32.
Tensor small_positions(const Tensor& positions) {
  if (positions.dtype() == DType::kU8 || positions.dtype() == DType::kI32) {
    return channels_last(positions);
  }
  const Tensor small = empty(positions.shape(), DType::kI32, Format::kChannelsLast);
  convert_into(positions, small);
  return small;
}

void max_pool2d(const KernelArgs& args) {
  const Tensor x = channels_last(args.input(0));
  const Tensor& out = args.output();
  const Tensor& positions = args.output(1);
  const Pool pool(args.attrs<Pool2dAttrs>(), x.shape(), out.shape());
  kernels::visit_vector_dtype(x.dtype(), [&]<class T>() {
    visit_positions(positions, [&]<class P>() {
      max_windows(pool, x.data<T>(), out.mutable_data<T>(), positions.mutable_data<P>());
    });
  });
}

void max_pool2d_grad(const KernelArgs& args) {
  const Tensor grad = channels_last(args.input(0));
  const Tensor positions = small_positions(args.input(1));
  const Tensor& out = args.output();
  const Pool pool(args.attrs<Pool2dAttrs>(), out.shape(), grad.shape());
  kernels::visit_vector_dtype(grad.dtype(), [&]<class T>() {
    visit_positions(positions, [&]<class P>() {
      if (pool.has_separate_windows()) {
        spread_chosen(pool, grad.data<T>(), positions.data<P>(), out.mutable_data<T>());
      } else {
        gather_chosen(pool, grad.data<T>(), positions.data<P>(), out.mutable_data<T>());
      }
    });
  });
}

void max_pool2d_pick(const KernelArgs& args) {
  const Tensor x = channels_last(args.input(0));
  const Tensor positions = small_positions(args.input(1));
  const Tensor& out = args.output();
  const Pool pool(args.attrs<Pool2dAttrs>(), x.shape(), out.shape());
  kernels::visit_vector_dtype(x.dtype(), [&]<class T>() {
    visit_positions(positions, [&]<class P>() {
      pick_chosen(pool, x.data<T>(), positions.data<P>(), out.mutable_data<T>());
    });
  });
}

void avg_pool2d(const KernelArgs& args) {
  const Tensor x = channels_last(args.input(0));
  const Tensor& out = args.output();
  const Pool pool(args.attrs<Pool2dAttrs>(), x.shape(), out.shape());
  kernels::visit_vector_dtype(
      x.dtype(), [&]<class T>() { mean_windows(pool, x.data<T>(), out.mutable_data<T>()); });
}

void avg_pool2d_grad(const KernelArgs& args) {
  const Tensor grad = channels_last(args.input(0));
  const Tensor& out = args.output();
  const Pool pool(args.attrs<Pool2dAttrs>(), out.shape(), grad.shape());
  kernels::visit_vector_dtype(
      grad.dtype(), [&]<class T>() { gather_shares(pool, grad.data<T>(), out.mutable_data<T>()); });
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mezzo::kernels::cpu {
namespace {

HWY_EXPORT(max_pool2d);
HWY_EXPORT(max_pool2d_grad);
HWY_EXPORT(max_pool2d_pick);
HWY_EXPORT(avg_pool2d);
HWY_EXPORT(avg_pool2d_grad);

Support supports(const KernelArgs& args) {
  return is_vector_dtype(args.input(0).dtype())
             ? Support::yes()
             : Support::no("only f32, bf16 and f16 are vectorised");
}

}  // namespace

extern const KernelList max_pool2d{{{{"cpu_simd", supports, [](const KernelArgs& args) {
                                        HWY_DYNAMIC_DISPATCH(max_pool2d)(args);
                                      }}}}};
extern const KernelList max_pool2d_grad{{{{"cpu_simd", supports, [](const KernelArgs& args) {
                                             HWY_DYNAMIC_DISPATCH(max_pool2d_grad)(args);
                                           }}}}};
extern const KernelList max_pool2d_pick{{{{"cpu_simd", supports, [](const KernelArgs& args) {
                                             HWY_DYNAMIC_DISPATCH(max_pool2d_pick)(args);
                                           }}}}};
extern const KernelList avg_pool2d{{{{"cpu_simd", supports, [](const KernelArgs& args) {
                                        HWY_DYNAMIC_DISPATCH(avg_pool2d)(args);
                                      }}}}};
extern const KernelList avg_pool2d_grad{{{{"cpu_simd", supports, [](const KernelArgs& args) {
                                             HWY_DYNAMIC_DISPATCH(avg_pool2d_grad)(args);
                                           }}}}};

}  // namespace mezzo::kernels::cpu
#endif
