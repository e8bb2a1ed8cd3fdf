// Pooling gradients by gathering: each pixel collects from the windows over it. Included once per
// instruction set, like simd-inl.h.
#if defined(MEZZO_KERNELS_CPU_POOL_GATHER_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEZZO_KERNELS_CPU_POOL_GATHER_INL_H_
#undef MEZZO_KERNELS_CPU_POOL_GATHER_INL_H_
#else
#define MEZZO_KERNELS_CPU_POOL_GATHER_INL_H_
#endif

#include <vector>

#include "mezzo/kernels/cpu/pool/pool-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {

// The windows over each column of pixels, computed once because they cost divisions.
inline std::vector<WindowRange> windows_over_columns(const Pool& pool) {
  std::vector<WindowRange> result;
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
  WindowRange rows;
  WindowRange columns;
};

// A window's contribution to a pixel: where the window's elements begin, and a `Detail`.
template <class Detail>
struct Contribution {
  std::int64_t window;
  Detail detail;
};

// Sums the windows' contributions to the channels from `channel` on.
template <bool kCut, class Detail, class Part>
HWY_INLINE F32Vec sum_over(const std::vector<Contribution<Detail>>& windows, std::int64_t channel,
                           const Part& part) {
  auto total = hn::Zero(F32());
  for (const Contribution<Detail>& from : windows) {
    const auto value = part.template operator()<kCut>(from.window + channel, from.detail);
    total = hn::Add(total, value);
  }
  return total;
}

// Replaces `windows` by the contributions of the windows over a pixel.
template <class Detail, class DetailOf>
void find_contributions(const Pool& pool, const Pixel& pixel, const DetailOf& detail_of,
                        std::vector<Contribution<Detail>>& windows) {
  windows.clear();
  for (std::int64_t row = pixel.rows.first; row < pixel.rows.last; ++row) {
    for (std::int64_t column = pixel.columns.first; column < pixel.columns.last; ++column) {
      windows.push_back({pool.window(pixel.image, row, column),
                         detail_of(pool, WindowOver{row, column, pixel.h, pixel.w})});
    }
  }
}

// Writes to every pixel of x the sum of its windows' contributions part<cut>(element, detail).
// `detail` is detail_of(pool, window over the pixel); `cut` says that vectors may reach beyond the
// last element. A pixel's windows are found once for all of its channels: finding them costs more
// than a vector's sum.
template <class T, class DetailOf, class Part>
void gather(const Pool& all, T* x, const DetailOf& detail_of, const Part& part) {
  using Detail = decltype(detail_of(all, WindowOver{}));
  const std::vector<WindowRange> columns_over = windows_over_columns(all);
  all.for_each_pixel_row([&](const Pool& pool, const GridRow& at) HWY_ATTR {
    std::vector<Contribution<Detail>> windows;
    const WindowRange rows{pool.rows.first_over(at.row), pool.rows.last_over(at.row)};
    T* to = x + pool.pixel(at.image, at.row, 0);
    for (std::int64_t w = 0; w < pool.columns.in; ++w, to += pool.c) {
      const Pixel pixel{at.image, at.row, w, rows, columns_over[static_cast<std::size_t>(w)]};
      find_contributions(pool, pixel, detail_of, windows);
      std::int64_t channel = 0;
      for (; channel + lanes() <= pool.c; channel += lanes()) {
        prefetch(to + channel, kWriteAhead);
        store(sum_over<false>(windows, channel, part), to + channel);
      }
      if (channel < pool.c) {
        store_before(x + at.end, sum_over<true>(windows, channel, part), to + channel);
      }
    }
  });
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
