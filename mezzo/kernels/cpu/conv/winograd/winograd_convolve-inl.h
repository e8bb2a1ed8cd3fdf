// The steps of a convolution by Winograd's method: multiplying tiles with a transformed weight, and
// writing results. Included once per instruction set, like simd-inl.h.
#if defined(MEZZO_KERNELS_CPU_WINOGRAD_CONVOLVE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEZZO_KERNELS_CPU_WINOGRAD_CONVOLVE_INL_H_
#undef MEZZO_KERNELS_CPU_WINOGRAD_CONVOLVE_INL_H_
#else
#define MEZZO_KERNELS_CPU_WINOGRAD_CONVOLVE_INL_H_
#endif

#include <type_traits>

#include "mezzo/core/math.h"
#include "mezzo/kernels/cpu/conv/winograd/winograd-inl.h"
#include "mezzo/kernels/cpu/loops/layout.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {

using kernels::prefetch_soon;
using kernels::winograd::Blocks;
using kernels::winograd::Convolution;
using kernels::winograd::kColumns;

// Rows, which are tiles, with two vectors of sums each in registers.
#if HWY_TARGET == HWY_AVX3
inline constexpr int kMostRows = 14;  // 28 sums, 2 vectors of the weight and a value: 31 registers
#else
inline constexpr int kMostRows = 6;
#endif
inline constexpr std::int64_t kPairOfVectors = 2 * kMaxLanes;

// The matrices of one point: tiles [panel][row][kPanel], a block of the weight [input][kColumns],
// and their products [row][kColumns].
struct PointProducts {
  const float* tiles = nullptr;
  std::int64_t panel = 0;   // from one panel of tiles to the next
  std::int64_t inputs = 0;  // to multiply
  const float* weight = nullptr;
  float* products = nullptr;
  bool first = true;  // the sums begin here; otherwise they continue
};

// Multiplies kRows rows with a pair of vectors of columns. The loops over sums are unrolled;
// otherwise the sums would not stay in registers.
template <int kRows>
void multiply_rows(const PointProducts& m, std::int64_t row, std::int64_t column) {
  const float* a = m.tiles + row * kPanel;
  const float* b = m.weight + column;
  float* const c = m.products + row * kColumns + column;
  const F32 d;
  const std::int64_t next = m.panel * static_cast<std::int64_t>(sizeof(float));
  F32Vec sums[kRows][2];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    sums[r][0] = m.first ? hn::Zero(d) : hn::LoadU(d, c + r * kColumns);
    sums[r][1] = m.first ? hn::Zero(d) : hn::LoadU(d, c + r * kColumns + kMaxLanes);
  }
  for (std::int64_t count = m.inputs; count > 0; count -= kPanel, a += m.panel) {
    const std::int64_t inputs = std::min(count, kPanel);
    for (std::int64_t i = 0; i < inputs; ++i, b += kColumns) {
      // The next panel's rows lie far from these, where no hardware prefetcher looks.
      prefetch_soon(a + i * kPanel, next);
      const F32Vec left = hn::LoadU(d, b);
      const F32Vec right = hn::LoadU(d, b + kMaxLanes);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const F32Vec factor = hn::Set(d, a[r * kPanel + i]);
        sums[r][0] = hn::MulAdd(factor, left, sums[r][0]);
        sums[r][1] = hn::MulAdd(factor, right, sums[r][1]);
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    hn::StoreU(sums[r][0], d, c + r * kColumns);
    hn::StoreU(sums[r][1], d, c + r * kColumns + kMaxLanes);
  }
}

template <int kRows = kMostRows>
void multiply_some_rows(const PointProducts& m, std::int64_t row, std::int64_t rows) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return multiply_some_rows<kRows - 1>(m, row, rows);
  }
  for (std::int64_t n = 0; n < kColumns; n += kPairOfVectors) multiply_rows<kRows>(m, row, n);
}

// Multiplies `count` rows from `first` on.
inline void multiply(const PointProducts& m, std::int64_t first, std::int64_t count) {
  const std::int64_t parts = ceil_div(count, kMostRows);
  for (std::int64_t part = 0; part < parts; ++part) {
    const std::int64_t row = first + count * part / parts;
    multiply_some_rows(m, row, first + count * (part + 1) / parts - row);
  }
}

// The products of all tiles for the channels [begin, end) of the result; `begin` is the start of a
// block.
struct TileProducts {
  const float* products = nullptr;
  Blocks layout;
  std::int64_t begin = 0, end = 0;
  const float* bias = nullptr;  // of all channels, or null
};

// The tiles' pixels in an image with those strides.
template <class Out>
struct TilePixels {
  Out* y;
  const Strides& strides;

  Out* first_of(const Tile& tile) const {
    return y + tile.image * strides[0] + tile.row * strides[2] + tile.column * strides[3];
  }
  // Prefetches the lines of the tile's pixels that begin at `channel`, if any do.
  HWY_INLINE void prefetch(const Tile& tile, std::int64_t channel) const {
    constexpr std::int64_t kLine = 64 / static_cast<std::int64_t>(sizeof(Out));
    if (channel % kLine != 0) return;
    const Out* const first = first_of(tile) + channel;
    for (int h = 0; h < tile.rows; ++h) {
      for (int w = 0; w < tile.columns; ++w) {
        kernels::prefetch(first + h * strides[2] + w * strides[3], 0);
      }
    }
  }
};

// Transforms the products of tile number `at` back to pixels, and prefetches the next tile's.
template <class Out>
void write_tile(const std::vector<Tile>& tiles, std::size_t at, const TileProducts& p,
                const TilePixels<Out>& pixels) {
  const Tile& tile = tiles[at];
  const Tile& next = tiles[std::min(at + 1, tiles.size() - 1)];
  const Strides& strides = pixels.strides;
  Out* const first = pixels.first_of(tile);
  for (std::int64_t channel = p.begin; channel < p.end; channel += kMaxLanes) {
    pixels.prefetch(next, channel);
    const std::int64_t place = channel - p.begin;
    const float* const from = p.products + place / kColumns * p.layout.block() +
                              static_cast<std::int64_t>(at) * kColumns + place % kColumns;
    const std::int64_t left = p.end - channel;
    const F32Vec bias = p.bias != nullptr ? load_up_to(p.bias + channel, left) : hn::Zero(F32());
    transform_tile<ResultTransform>(
        tile,
        [&](int h, int w) HWY_ATTR { return load(from + (h * kTile + w) * p.layout.point()); },
        [&](int h, int w, F32Vec v) HWY_ATTR {
          Out* const to = first + h * strides[2] + w * strides[3] + channel;
          const F32Vec sum = hn::Add(v, bias);
          left >= kMaxLanes ? store(sum, to) : store_part(sum, to, left);
        });
  }
}

// Writes all tiles.
template <class Out>
void write_tiles(const std::vector<Tile>& tiles, const TileProducts& p, Out* y,
                 const Strides& strides) {
  for (std::size_t at = 0; at < tiles.size(); ++at) {
    write_tile(tiles, at, p, TilePixels<Out>{y, strides});
  }
}

// Calls body(images, results) with the elements of a call. Results have the images' dtype, or are
// f32.
template <class Body>
void visit_images(const Tensor& x, const Tensor& y, const Body& body) {
  kernels::visit_vector_dtype(x.dtype(), [&]<class T>() {
    if constexpr (!std::is_same_v<T, float>) {
      if (y.dtype() == x.dtype()) return body(x.data<T>(), y.mutable_data<T>());
    }
    body(x.data<T>(), y.mutable_data<float>());
  });
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
