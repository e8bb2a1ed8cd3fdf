#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mezzo/kernels/cpu/winograd.cpp"
#include "mezzo/kernels/cpu/winograd.h"

#include <type_traits>

#include <hwy/foreach_target.h>

#include "mezzo/kernels/cpu/layout.h"
#include "mezzo/kernels/cpu/winograd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {
namespace {

using kernels::visit_vector_dtype;
using kernels::winograd::Blocks;
using kernels::winograd::Convolution;
using kernels::winograd::kColumns;
using kernels::winograd::kPoints;
using kernels::winograd::TileGroups;
using kernels::winograd::Tiling;

// Two vectors of sums for each of these rows, which are tiles.
#if HWY_TARGET == HWY_AVX3
inline constexpr int kMostRows = 14;  // 28 sums, 2 vectors of the weight and a number: 31 registers
#else
inline constexpr int kMostRows = 6;
#endif
inline constexpr std::int64_t kPairOfVectors = 2 * kMaxLanes;

// c[r][n] = sum over i < count of a[i / kPanel][r][i % kPanel] * b[i][n], for kRows rows r and a
// pair of vectors of columns n. The loops over sums are unrolled, or the sums would not stay in
// registers.
template <int kRows>
void multiply_rows(const float* a, std::int64_t a_panel, std::int64_t count, const float* b,
                   float* c) {
  const F32 d;
  F32Vec sums[kRows][2];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) sums[r][0] = sums[r][1] = hn::Zero(d);
  for (; count > 0; count -= kPanel, a += a_panel) {
    const std::int64_t inputs = std::min(count, kPanel);
    for (std::int64_t i = 0; i < inputs; ++i, b += kColumns) {
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
void multiply_some_rows(std::int64_t rows, const float* a, std::int64_t a_panel, std::int64_t count,
                        const float* b, float* c) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return multiply_some_rows<kRows - 1>(rows, a, a_panel, count, b, c);
  }
  for (std::int64_t n = 0; n < kColumns; n += kPairOfVectors) {
    multiply_rows<kRows>(a, a_panel, count, b + n, c + n);
  }
}

// What a thread does with some tiles at a time.
template <class T>
class TileWorker {
 public:
  TileWorker(const Convolution& convolution, std::int64_t most_tiles, const T* x,
             const float* weight, const float* bias)
      : convolution_(convolution),
        weight_(weight),
        bias_(bias),
        copies_(convolution.in, most_tiles),
        products_(convolution.out, most_tiles),
        tiles_(empty({copies_.floats()})),
        results_(empty({products_.floats()})),
        zeros_(zeros({convolution.in}, kDTypeOf<T>)),
        squares_(x, convolution.tiling.image, convolution.in, convolution.in, zeros_.data<T>()) {}

  // The tiles [begin, end). `y` has those strides.
  template <class Out>
  void run(std::int64_t begin, std::int64_t end, Out* y, const Strides& strides) {
    const TileGroups groups(convolution_.tiling, begin, end);
    std::int64_t at = 0;
    for (const Tile& tile : groups.tiles()) read_tile(tile, at++);
    multiply(groups);
    at = 0;
    for (const Tile& tile : groups.tiles()) write_tile(tile, at++, y, strides);
  }

 private:
  float* tiles() const { return tiles_.mutable_data<float>(); }
  float* results() const { return results_.mutable_data<float>(); }

  void read_tile(const Tile& tile, std::int64_t at) {
    const Tiling& tiling = convolution_.tiling;
    squares_.move_to(tile.image, tile.row - tiling.top, tile.column - tiling.left);
    squares_.template transform_to<ImageTransform>(copies_, tile, at, tiles());
  }

  void multiply(const TileGroups& groups) {
    for (int point = 0; point < kPoints; ++point) {
      groups.for_tiles_with(point, [&](std::int64_t first, std::int64_t count) {
        multiply_point(point, first, count);
      });
    }
  }

  void multiply_point(int point, std::int64_t first, std::int64_t count) {
    const Blocks weight = convolution_.weight();
    const std::int64_t parts = (count + kMostRows - 1) / kMostRows;
    for (std::int64_t block = 0; block < weight.blocks; ++block) {
      const float* b = weight_ + point * weight.point() + block * weight.block();
      float* c = results() + point * products_.point() + block * products_.block();
      for (std::int64_t part = 0; part < parts; ++part) {
        const std::int64_t row = first + count * part / parts;
        multiply_some_rows(first + count * (part + 1) / parts - row,
                           tiles() + point * copies_.point() + row * kPanel, copies_.panel(),
                           convolution_.in, b, c + row * kColumns);
      }
    }
  }

  template <class Out>
  void write_tile(const Tile& tile, std::int64_t at, Out* y, const Strides& strides) {
    const std::int64_t outs = convolution_.out;
    Out* const first =
        y + tile.image * strides[0] + tile.row * strides[2] + tile.column * strides[3];
    for (std::int64_t channel = 0; channel < outs; channel += kMaxLanes) {
      const float* const from =
          results() + channel / kColumns * products_.block() + at * kColumns + channel % kColumns;
      const std::int64_t left = outs - channel;
      const F32Vec bias = bias_ != nullptr ? load_up_to(bias_ + channel, left) : hn::Zero(F32());
      transform_tile<ResultTransform>(
          tile,
          [&](int h, int w) HWY_ATTR { return load(from + (h * kTile + w) * products_.point()); },
          [&](int h, int w, F32Vec v) HWY_ATTR {
            Out* const to = first + h * strides[2] + w * strides[3] + channel;
            const F32Vec sum = hn::Add(v, bias);
            left >= kMaxLanes ? store(sum, to) : store_part(sum, to, left);
          });
    }
  }

  const Convolution& convolution_;
  const float* weight_;
  const float* bias_;
  TileCopies copies_;
  Blocks products_;
  Tensor tiles_;
  Tensor results_;
  Tensor zeros_;
  Squares<T, kTile> squares_;
};

}  // namespace

void convolve(const Convolution& convolution, const Tensor& x, const float* weight,
              const float* bias, const Tensor& y) {
  const std::int64_t count = convolution.tiling.tiles();
  const std::int64_t step = convolution.tiles_at_a_time(num_threads());
  const auto run = [&]<class T, class Out>(const T* images, Out* results) {
    parallel_for((count + step - 1) / step, 1, [&](std::int64_t begin, std::int64_t end) {
      TileWorker<T> worker(convolution, step, images, weight, bias);
      for (std::int64_t i = begin; i < end; ++i) {
        worker.run(i * step, std::min(count, (i + 1) * step), results, y.strides());
      }
    });
  };
  visit_vector_dtype(x.dtype(), [&]<class T>() {
    if constexpr (!std::is_same_v<T, float>) {
      if (y.dtype() == x.dtype()) return run(x.data<T>(), y.mutable_data<T>());
    }
    run(x.data<T>(), y.mutable_data<float>());
  });
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mezzo::kernels::winograd {

HWY_EXPORT(convolve);

void convolve(const Convolution& convolution, const Tensor& x, const float* weight,
              const float* bias, const Tensor& y) {
  HWY_DYNAMIC_DISPATCH(convolve)(convolution, x, weight, bias, y);
}

}  // namespace mezzo::kernels::winograd
#endif
