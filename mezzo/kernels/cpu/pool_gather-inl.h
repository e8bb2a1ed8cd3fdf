// Pixels that collect from the windows over them. Included once per instruction set, like
// simd-inl.h.
#if defined(MEZZO_KERNELS_CPU_POOL_GATHER_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEZZO_KERNELS_CPU_POOL_GATHER_INL_H_
#undef MEZZO_KERNELS_CPU_POOL_GATHER_INL_H_
#else
#define MEZZO_KERNELS_CPU_POOL_GATHER_INL_H_
#endif

#include <vector>

#include "mezzo/kernels/cpu/pool-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {

// The windows over each column of pixels: they cost divisions.
inline std::vector<Windows> windows_over_columns(const Pool& pool) {
  std::vector<Windows> result;
  for (std::int64_t w = 0; w < pool.columns.in; ++w) {
    result.push_back({pool.columns.first_over(w), pool.columns.last_over(w)});
  }
  return result;
}

// A window, and a pixel that it contains.
struct WindowOver {
  std::int64_t row;
  std::int64_t column;
  std::int64_t h;
  std::int64_t w;
};

// A pixel of an image, and the windows that contain it.
struct Pixel {
  std::int64_t image;
  std::int64_t h;
  std::int64_t w;
  Windows rows;
  Windows columns;
};

// The sum of part(pool, element, window) over the windows, for the channels from `channel` on.
template <class Part>
HWY_INLINE F32Vec sum_over(const Pool& pool, const Pixel& pixel, std::int64_t channel,
                           const Part& part) {
  auto total = hn::Zero(F32());
  for (std::int64_t row = pixel.rows.first; row < pixel.rows.last; ++row) {
    for (std::int64_t column = pixel.columns.first; column < pixel.columns.last; ++column) {
      const std::int64_t element = pool.window(pixel.image, row, column) + channel;
      total = hn::Add(total, part(pool, element, WindowOver{row, column, pixel.h, pixel.w}));
    }
  }
  return total;
}

// Writes to every pixel of x what the windows over it add up to.
template <class T, class Part>
void gather(const Pool& all, T* x, const Part& part) {
  const std::vector<Windows> over = windows_over_columns(all);
  all.for_each_pixel_row([&](const Pool& pool, const GridRow& at) HWY_ATTR {
    const Windows rows{pool.rows.first_over(at.row), pool.rows.last_over(at.row)};
    T* to = x + pool.pixel(at.image, at.row, 0);
    for (std::int64_t w = 0; w < pool.columns.in; ++w, to += pool.c) {
      const Pixel pixel{at.image, at.row, w, rows, over[static_cast<std::size_t>(w)]};
      for (std::int64_t channel = 0; channel < pool.c; channel += lanes()) {
        store_before(x + at.end, sum_over(pool, pixel, channel, part), to + channel);
      }
    }
  });
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
