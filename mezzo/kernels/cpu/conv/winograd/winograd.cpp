#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mezzo/kernels/cpu/conv/winograd/winograd.cpp"
#include "mezzo/kernels/cpu/conv/winograd/winograd.h"

#include <hwy/foreach_target.h>

#include "mezzo/core/math.h"
#include "mezzo/kernels/cpu/conv/winograd/winograd_convolve-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {
namespace {

using kernels::winograd::kPoints;
using kernels::winograd::TileGroups;

// Computes groups of tiles on one thread.
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
        results_(empty({products_.floats()})),
        reader_(convolution.tiling, convolution.in, x) {}

  // Computes the tiles [begin, end). `strides` are those of y.
  template <class Out>
  void run(std::int64_t begin, std::int64_t end, Out* y, const Strides& strides) {
    const TileGroups groups(convolution_.tiling, begin, end);
    float* const numbers = copies_.numbers.mutable_data<float>();
    for (std::int64_t i = 0; i < end - begin; ++i) {
      reader_.read(groups.tiles(), i, copies_.layout, numbers);
    }
    multiply_all(groups);
    write_tiles(groups.tiles(), {results(), products_, 0, convolution_.out, bias_}, y, strides);
  }

 private:
  float* results() const { return results_.mutable_data<float>(); }

  void multiply_all(const TileGroups& groups) {
    const Blocks weight = convolution_.weight();
    for (int point = 0; point < kPoints; ++point) {
      groups.for_tiles_with(point, [&](std::int64_t first, std::int64_t count) {
        for (std::int64_t block = 0; block < weight.blocks; ++block) {
          multiply({.tiles = copies_.at(point),
                    .panel = copies_.layout.panel(),
                    .inputs = convolution_.in,
                    .weight = weight_ + point * weight.point() + block * weight.block(),
                    .products = results() + point * products_.point() + block * products_.block()},
                   first, count);
        }
      });
    }
  }

  const Convolution& convolution_;
  const float* weight_;
  const float* bias_;
  Copies copies_;
  Blocks products_;
  Tensor results_;
  TileReader<T> reader_;
};

}  // namespace

void convolve(const Convolution& convolution, const Tensor& x, const float* weight,
              const float* bias, const Tensor& y) {
  if constexpr (kRunsAvx2Kernels) {
    const std::int64_t count = convolution.tiling.tiles();
    const std::int64_t step = convolution.tiles_at_a_time(num_threads());
    visit_images(x, y, [&]<class T, class Out>(const T* images, Out* results) {
      parallel_for(ceil_div(count, step), 1, [&](std::int64_t begin, std::int64_t end) {
        TileWorker<T> worker(convolution, step, images, weight, bias);
        for (std::int64_t i = begin; i < end; ++i) {
          worker.run(i * step, std::min(count, (i + 1) * step), results, y.strides());
        }
      });
    });
  } else {
    kernels::fail_without_avx2();
  }
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
