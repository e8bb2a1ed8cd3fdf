// The transforms of Winograd's method for up to four results and three taps. Included once per
// instruction set, like simd-inl.h.
//
// This is the Toom-Cook method with the points 0, +-5/8, +-3/2 and infinity; Lavin and Gray's
// points 0, +-1, +-2 lose more bits. (Barabasz et al., "Error analysis and improving the accuracy
// of Winograd convolution for deep neural networks", 2018.) A transform runs along columns, then
// along rows. The transforms of gradients are the transposes of those of results. A sum with a
// product is written as one fused operation: otherwise the compiler would choose what to fuse, not
// the same for every type of image.
//
// Fewer results take fewer points. Kernels are divided by the products of a point's differences
// from all others. Images with fewer points are multiplied by the quotient that makes up for it.
#if defined(MEZZO_KERNELS_CPU_WINOGRAD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEZZO_KERNELS_CPU_WINOGRAD_INL_H_
#undef MEZZO_KERNELS_CPU_WINOGRAD_INL_H_
#else
#define MEZZO_KERNELS_CPU_WINOGRAD_INL_H_
#endif

#include <vector>

#include "mezzo/kernels/cpu/conv/winograd/winograd_plan.h"
#include "mezzo/kernels/cpu/loops/layout.h"
#include "mezzo/kernels/cpu/simd/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {

using kernels::winograd::kPanel;
using kernels::winograd::kPointsFor;
using kernels::winograd::kResults;
using kernels::winograd::kTaps;
using kernels::winograd::kTile;
using kernels::winograd::points_for;
using kernels::winograd::Tile;
using kernels::winograd::TileCopies;
using kernels::winograd::Tiling;

// The points a and b, and constants derived from them. All but the norms are exact in f32.
inline constexpr double kA = 0.625;
inline constexpr double kB = 1.5;
inline constexpr double kA2 = kA * kA;
inline constexpr double kB2 = kB * kB;
// The products of a point's differences from the others.
inline constexpr double kNorm0 = kA2 * kB2;
inline constexpr double kNormA = 2 * kA2 * (kA2 - kB2);
inline constexpr double kNormB = 2 * kB2 * (kB2 - kA2);

HWY_INLINE F32Vec constant(double value) { return hn::Set(F32(), static_cast<float>(value)); }

// a * x + y
HWY_INLINE F32Vec times_plus(double a, F32Vec x, F32Vec y) { return hn::MulAdd(constant(a), x, y); }

// The values at a and -a of a polynomial, from the sums of its even terms and of its odd terms
// divided by a.
HWY_INLINE void at_both_signs(double a, F32Vec even, F32Vec odd, F32Vec* out) {
  out[0] = times_plus(a, odd, even);
  out[1] = times_plus(-a, odd, even);
}

// Evaluates a tile's polynomial at its points, up to the norms.
struct ImageTransform {
  static constexpr int ins(int results) { return points_for(results); }
  static constexpr int in(int /*results*/, int i) { return i; }
  static constexpr int outs(int results) { return points_for(results); }
  static constexpr int out(int results, int i) { return kPointsFor[results][i]; }

  template <int kCount>
  static HWY_INLINE void apply(const F32Vec* d, F32Vec* out) {
    if constexpr (kCount == 4) return four(d, out);
    if constexpr (kCount == 3) return three(d, out);
    if constexpr (kCount == 2) return two(d, out);
    one(d, out);
  }

 private:
  static HWY_INLINE void four(const F32Vec* d, F32Vec* out) {
    const F32Vec even_a = times_plus(-kB2, d[2], d[4]);
    const F32Vec odd_a = times_plus(-kB2, d[1], d[3]);
    const F32Vec even_b = times_plus(-kA2, d[2], d[4]);
    const F32Vec odd_b = times_plus(-kA2, d[1], d[3]);
    out[0] = times_plus(kNorm0, d[0], times_plus(-(kA2 + kB2), d[2], d[4]));
    at_both_signs(kA, even_a, odd_a, out + 1);
    at_both_signs(kB, even_b, odd_b, out + 3);
    out[5] = times_plus(kNorm0, d[1], times_plus(-(kA2 + kB2), d[3], d[5]));
  }
  // Points 0, +-a, b and infinity; the factors are the norms' quotients b, a + b, b - a and 2 b.
  static HWY_INLINE void three(const F32Vec* d, F32Vec* out) {
    const F32Vec low = times_plus(-kA2, d[0], d[2]);    // (x - a) (x + a)
    const F32Vec high = times_plus(-kA2, d[1], d[3]);   // times x
    const F32Vec above = times_plus(-kA2, d[2], d[4]);  // times x^2
    const F32Vec line = times_plus(-kB, d[1], d[2]);    // x (x - b)
    const F32Vec next = times_plus(-kB, d[2], d[3]);    // times x
    out[0] = hn::Mul(constant(kB), times_plus(-kB, low, high));
    out[1] = hn::Mul(constant(kA + kB), times_plus(kA, line, next));
    out[2] = hn::Mul(constant(kB - kA), times_plus(-kA, line, next));
    out[3] = hn::Mul(constant(2 * kB), high);
    out[4] = times_plus(-kB, high, above);
  }
  // Points 0, +-a and infinity; the factors are -b^2 and a^2 - b^2.
  static HWY_INLINE void two(const F32Vec* d, F32Vec* out) {
    out[0] = hn::Mul(constant(-kB2), times_plus(-kA2, d[0], d[2]));
    at_both_signs(kA, hn::Mul(constant(kA2 - kB2), d[2]), hn::Mul(constant(kA2 - kB2), d[1]),
                  out + 1);
    out[3] = times_plus(-kA2, d[1], d[3]);
  }
  // Points 0, a and infinity; the factors are -a b^2 and 2 a (a^2 - b^2).
  static HWY_INLINE void one(const F32Vec* d, F32Vec* out) {
    out[0] = hn::Mul(constant(-kA * kB2), times_plus(-kA, d[0], d[1]));
    out[1] = hn::Mul(constant(2 * kA * (kA2 - kB2)), d[1]);
    out[2] = times_plus(-kA, d[1], d[2]);
  }
};

struct KernelTransform {
  static constexpr int ins(int /*results*/) { return kTaps; }
  static constexpr int outs(int /*results*/) { return kTile; }
  template <int kCount>
  static HWY_INLINE void apply(const F32Vec* w, F32Vec* out) {
    const F32Vec even_a = times_plus(kA2, w[2], w[0]);
    const F32Vec even_b = times_plus(kB2, w[2], w[0]);
    out[0] = hn::Mul(constant(1 / kNorm0), w[0]);
    at_both_signs(kA, even_a, w[1], out + 1);
    at_both_signs(kB, even_b, w[1], out + 3);
#pragma GCC unroll 4
    for (int i = 1; i <= 4; ++i) {
      out[i] = hn::Mul(constant(i <= 2 ? 1 / kNormA : 1 / kNormB), out[i]);
    }
    out[5] = w[2];
  }
};

struct ResultTransform {
  static constexpr int ins(int results) { return points_for(results); }
  static constexpr int in(int results, int i) { return kPointsFor[results][i]; }
  static constexpr int outs(int results) { return results; }
  static constexpr int out(int /*results*/, int i) { return i; }

  template <int kCount>
  static HWY_INLINE void apply(const F32Vec* m, F32Vec* out) {
    if constexpr (kCount == 1) {
      out[0] = hn::Add(m[0], hn::Add(m[1], m[2]));
      return;
    }
    const F32Vec even_a = hn::Add(m[1], m[2]);
    const F32Vec odd_a = hn::Sub(m[1], m[2]);
    if constexpr (kCount == 2) {
      out[0] = hn::Add(m[0], even_a);
      out[1] = times_plus(kA, odd_a, m[3]);
    } else if constexpr (kCount == 3) {
      out[0] = hn::Add(m[0], hn::Add(even_a, m[3]));
      out[1] = times_plus(kB, m[3], hn::Mul(constant(kA), odd_a));
      out[2] = times_plus(kB2, m[3], times_plus(kA2, even_a, m[4]));
    } else {
      const F32Vec even_b = hn::Add(m[3], m[4]);
      const F32Vec odd_b = hn::Sub(m[3], m[4]);
      out[0] = hn::Add(m[0], hn::Add(even_a, even_b));
      out[1] = times_plus(kB, odd_b, hn::Mul(constant(kA), odd_a));
      out[2] = times_plus(kB2, even_b, hn::Mul(constant(kA2), even_a));
      out[3] = times_plus(kB2 * kB, odd_b, times_plus(kA2 * kA, odd_a, m[5]));
    }
  }
};

struct ResultGradTransform {
  static constexpr int ins(int results) { return results; }
  static constexpr int in(int /*results*/, int i) { return i; }
  static constexpr int outs(int results) { return points_for(results); }
  static constexpr int out(int results, int i) { return kPointsFor[results][i]; }

  template <int kCount>
  static HWY_INLINE void apply(const F32Vec* y, F32Vec* out) {
    out[0] = y[0];
    out[kCount + 1] = y[kCount - 1];
    if constexpr (kCount == 1) {
      out[1] = y[0];
    } else if constexpr (kCount == 2) {
      at_both_signs(kA, y[0], y[1], out + 1);
    } else if constexpr (kCount == 3) {
      at_both_signs(kA, times_plus(kA2, y[2], y[0]), y[1], out + 1);
      out[3] = times_plus(kB2, y[2], times_plus(kB, y[1], y[0]));
    } else {
      at_both_signs(kA, times_plus(kA2, y[2], y[0]), times_plus(kA2, y[3], y[1]), out + 1);
      at_both_signs(kB, times_plus(kB2, y[2], y[0]), times_plus(kB2, y[3], y[1]), out + 3);
    }
  }
};

struct KernelGradTransform {
  static constexpr int ins(int /*results*/) { return kTile; }
  static constexpr int outs(int /*results*/) { return kTaps; }
  template <int kCount>
  static HWY_INLINE void apply(const F32Vec* u, F32Vec* out) {
    const F32Vec even_a = hn::Add(u[1], u[2]);
    const F32Vec odd_a = hn::Sub(u[1], u[2]);
    const F32Vec even_b = hn::Add(u[3], u[4]);
    const F32Vec odd_b = hn::Sub(u[3], u[4]);
    const F32Vec all_b = hn::Mul(constant(1 / kNormB), even_b);
    out[0] = times_plus(1 / kNorm0, u[0], times_plus(1 / kNormA, even_a, all_b));
    out[1] = times_plus(kA / kNormA, odd_a, hn::Mul(constant(kB / kNormB), odd_b));
    out[2] = times_plus(kA2 / kNormA, even_a, times_plus(kB2 / kNormB, even_b, u[5]));
  }
};

// Calls body() with the number of results as a template argument.
template <class Body>
HWY_INLINE void with_results(int results, const Body& body) {
  if (results == 4) return body.template operator()<4>();
  if (results == 3) return body.template operator()<3>();
  if (results == 2) return body.template operator()<2>();
  body.template operator()<1>();
}

// Transforms the square of get(i, j) along both axes and calls put(i, j, value) with the results.
template <class Transform, class Get, class Put>
HWY_INLINE void transform(const Get& get, const Put& put) {
  constexpr int kIn = Transform::ins(kResults);
  constexpr int kOut = Transform::outs(kResults);
  F32Vec half[kOut][kIn];
#pragma GCC unroll 6
  for (int j = 0; j < kIn; ++j) {
    F32Vec line[kIn];
#pragma GCC unroll 6
    for (int i = 0; i < kIn; ++i) line[i] = get(i, j);
    F32Vec done[kOut];
    Transform::template apply<kResults>(line, done);
#pragma GCC unroll 6
    for (int i = 0; i < kOut; ++i) half[i][j] = done[i];
  }
#pragma GCC unroll 6
  for (int i = 0; i < kOut; ++i) {
    F32Vec done[kOut];
    Transform::template apply<kResults>(half[i], done);
#pragma GCC unroll 6
    for (int j = 0; j < kOut; ++j) put(i, j, done[j]);
  }
}

// transform() for a tile of fewer results.
template <class Transform, class Get, class Put>
HWY_INLINE void transform_part(int rows, int columns, const Get& get, const Put& put) {
  F32Vec half[kTile][kTile];
  with_results(rows, [&]<int kRows>() HWY_ATTR {
    for (int j = 0; j < Transform::ins(columns); ++j) {
      F32Vec line[kTile];
      for (int i = 0; i < Transform::ins(kRows); ++i) {
        line[i] = get(Transform::in(kRows, i), Transform::in(columns, j));
      }
      F32Vec done[kTile];
      Transform::template apply<kRows>(line, done);
      for (int i = 0; i < Transform::outs(kRows); ++i) half[i][j] = done[i];
    }
  });
  with_results(columns, [&]<int kColumns>() HWY_ATTR {
    for (int i = 0; i < Transform::outs(rows); ++i) {
      F32Vec done[kTile];
      Transform::template apply<kColumns>(half[i], done);
      for (int j = 0; j < Transform::outs(kColumns); ++j) {
        put(Transform::out(rows, i), Transform::out(kColumns, j), done[j]);
      }
    }
  });
}

// Transforms a tile of any size.
template <class Transform, class Get, class Put>
HWY_INLINE void transform_tile(const Tile& tile, const Get& get, const Put& put) {
  if (tile.rows == kResults && tile.columns == kResults) return transform<Transform>(get, put);
  transform_part<Transform>(tile.rows, tile.columns, get, put);
}

// Loads up to `count` values, as many as a vector has; the other lanes are zeros.
template <class T>
HWY_INLINE F32Vec load_up_to(const T* p, std::int64_t count) {
  if (count >= kMaxLanes) return load(p);
  return count > 0 ? load_part(p, count) : hn::Zero(F32());
}

// The pixels of squares of kSize x kSize in channels-last images; zeros outside of an image.
template <class T, int kSize>
class Squares {
  using Pixels = const T* [kSize][kSize];

 public:
  // `pixel`: elements from one pixel to the next; `channels` of them are read, and as many from
  // `zeros`.
  Squares(const T* images, Size2d size, std::int64_t channels, std::int64_t pixel, const T* zeros)
      : images_(images), size_(size), channels_(channels), pixel_(pixel), zeros_(zeros) {}

  // Moves to the square of a tile, which begins `top` and `left` before its results. The next
  // tile's square is prefetched while this one is transformed.
  void move_along(const std::vector<Tile>& tiles, std::int64_t at, std::int64_t top,
                  std::int64_t left) {
    const auto find_at = [&](std::size_t i, Pixels& pixels) {
      find(tiles[i].image, tiles[i].row - top, tiles[i].column - left, pixels);
    };
    const auto i = static_cast<std::size_t>(at);
    find_at(i, pixels_);
    find_at(std::min(i + 1, tiles.size() - 1), next_);
  }

  // Transforms every panel of channels of the square. The result is tile `to` of the copies.
  template <class Transform>
  HWY_INLINE void transform_to(const TileCopies& copies, const Tile& tile, std::int64_t to,
                               float* out) const {
    const std::int64_t point = copies.point();
    for (std::int64_t panel = 0; panel < copies.panels; ++panel) {
      for (std::int64_t lane = 0; lane < kPanel; lane += kMaxLanes) {
        const std::int64_t channel = panel * kPanel + lane;
        const std::int64_t count = channels_ - channel;
        prefetch_pixels(channel);
        float* const target = out + panel * copies.panel() + to * kPanel + lane;
        transform_tile<Transform>(
            tile, [&](int i, int j) HWY_ATTR { return load_up_to(pixels_[i][j] + channel, count); },
            [&](int i, int j, F32Vec v) HWY_ATTR { store(v, target + (i * kTile + j) * point); });
      }
    }
  }

 private:
  void find(std::int64_t image, std::int64_t row, std::int64_t column, Pixels& pixels) const {
    const T* const first = images_ + image * size_.h * size_.w * pixel_;
    for (int i = 0; i < kSize; ++i) {
      const std::int64_t h = row + i;
      const bool in_rows = h >= 0 && h < size_.h;
      for (int j = 0; j < kSize; ++j) {
        const std::int64_t w = column + j;
        const bool inside = in_rows && w >= 0 && w < size_.w;
        pixels[i][j] = inside ? first + (h * size_.w + w) * pixel_ : zeros_;
      }
    }
  }

  // Only the last rows and columns: squares share their first ones with the squares before them.
  HWY_INLINE void prefetch_pixels(std::int64_t channel) const {
    constexpr std::int64_t kLine = 64 / static_cast<std::int64_t>(sizeof(T));
    if (channel % kLine != 0) return;
    for (int i = kSize - kResults; i < kSize; ++i) {
      for (int j = kSize - kResults; j < kSize; ++j) kernels::prefetch(next_[i][j] + channel, 0);
    }
  }

  const T* images_;
  Size2d size_;
  std::int64_t channels_;
  std::int64_t pixel_;
  const T* zeros_;
  Pixels pixels_ = {};
  Pixels next_ = {};
};

// Transforms tiles of a batch of images.
template <class T>
class TileReader {
 public:
  TileReader(const Tiling& tiling, std::int64_t channels, const T* x)
      : tiling_(tiling),
        zeros_(zeros({channels}, kDTypeOf<T>)),
        squares_(x, tiling.image, channels, channels, zeros_.data<T>()) {}

  // Reads tile number `at` and writes it to the same number in the copies.
  void read(const std::vector<Tile>& tiles, std::int64_t at, const TileCopies& copies, float* out) {
    squares_.move_along(tiles, at, tiling_.top, tiling_.left);
    squares_.template transform_to<ImageTransform>(copies, tiles[static_cast<std::size_t>(at)], at,
                                                   out);
  }

 private:
  const Tiling& tiling_;
  Tensor zeros_;
  Squares<T, kTile> squares_;
};

// Transformed tiles.
struct Copies {
  TileCopies layout;
  Tensor numbers;

  Copies(std::int64_t channels, std::int64_t tiles)
      : layout(channels, tiles), numbers(empty({layout.floats()})) {}
  const float* at(std::int64_t point) const {
    return numbers.data<float>() + point * layout.point();
  }
};

// Transforms some tiles of x, on all threads.
inline void read_images(const Tiling& tiling, const Tensor& x, const std::vector<Tile>& tiles,
                        const Copies& to) {
  float* const copies = to.numbers.mutable_data<float>();
  kernels::visit_vector_dtype(x.dtype(), [&]<class T>() {
    const auto count = static_cast<std::int64_t>(tiles.size());
    parallel_for(count, 1, [&](std::int64_t begin, std::int64_t end) {
      TileReader<T> reader(tiling, x.size(1), x.data<T>());
      for (std::int64_t i = begin; i < end; ++i) reader.read(tiles, i, to.layout, copies);
    });
  });
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
