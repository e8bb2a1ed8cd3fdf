#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mezzo/kernels/cpu/conv/winograd/winograd_outputs.cpp"
#include <hwy/foreach_target.h>

#include "mezzo/kernels/cpu/conv/winograd/winograd.h"
#include "mezzo/kernels/cpu/conv/winograd/winograd_convolve-inl.h"
#include "mezzo/kernels/cpu/conv/winograd/winograd_weight-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {
namespace {

using kernels::winograd::kPoints;
using kernels::winograd::RoundedWeight;
using kernels::winograd::TileGroups;

// The tiles of a batch of images, and their transforms.
struct ReadTiles {
  const TileGroups& groups;
  const Copies& copies;
};

// Computes kColumns outputs at a time on one thread. A part of the weight is transformed and
// multiplied while it is in the second-level cache, and so are the products.
template <class W>
class OutputWorker {
 public:
  OutputWorker(const Convolution& convolution, const RoundedWeight& weight, const ReadTiles& tiles)
      : block_(convolution, weight),
        convolution_(convolution),
        tiles_(tiles),
        products_(kColumns, tiles.copies.layout.tiles),
        part_(empty({kPartLayout.floats()})),
        results_(empty({products_.floats()})) {}

  template <class Out>
  void run(std::int64_t first_out, const float* bias, Out* y, const Strides& strides) {
    for (std::int64_t in = 0; in < convolution_.in; in += kInputs) {
      transform_part(in, first_out);
      multiply_part(in);
    }
    write_tiles(
        tiles_.groups.tiles(),
        {results(), products_, first_out, std::min(convolution_.out, first_out + kColumns), bias},
        y, strides);
  }

 private:
  static constexpr std::int64_t kInputs = 64;  // per part, which is 288 KiB
  static constexpr Blocks kPartLayout{kColumns, kInputs};

  float* part() const { return part_.template mutable_data<float>(); }
  float* results() const { return results_.template mutable_data<float>(); }
  std::int64_t inputs_from(std::int64_t in) const {
    return std::min(kInputs, convolution_.in - in);
  }

  void transform_part(std::int64_t first_in, std::int64_t first_out) {
    for (std::int64_t i = 0; i < inputs_from(first_in); i += kPanel) {
      block_.transform_to(first_in + i, first_out, kPartLayout.point(), part() + i * kColumns);
    }
  }

  void multiply_part(std::int64_t first_in) {
    const std::int64_t panel = tiles_.copies.layout.panel();
    for (int point = 0; point < kPoints; ++point) {
      tiles_.groups.for_tiles_with(point, [&](std::int64_t first, std::int64_t count) {
        multiply({.tiles = tiles_.copies.at(point) + first_in / kPanel * panel,
                  .panel = panel,
                  .inputs = inputs_from(first_in),
                  .weight = part() + point * kPartLayout.point(),
                  .products = results() + point * products_.point(),
                  .first = first_in == 0},
                 first, count);
      });
    }
  }

  KernelBlock<W> block_;
  const Convolution& convolution_;
  const ReadTiles& tiles_;
  Blocks products_;
  Tensor part_;
  Tensor results_;
};

template <class Out>
void multiply_all(const Convolution& convolution, const ReadTiles& tiles,
                  const RoundedWeight& weight, const float* bias, Out* y, const Strides& strides) {
  kernels::visit_vector_dtype(weight.numbers.dtype(), [&]<class W>() {
    parallel_for(convolution.weight().blocks, 1, [&](std::int64_t begin, std::int64_t end) {
      OutputWorker<W> worker(convolution, weight, tiles);
      for (std::int64_t i = begin; i < end; ++i) worker.run(i * kColumns, bias, y, strides);
    });
  });
}

}  // namespace

void convolve_by_outputs(const Convolution& convolution, const Tensor& x,
                         const RoundedWeight& weight, const float* bias, const Tensor& y) {
  if constexpr (kRunsAvx2Kernels) {
    const std::int64_t count = convolution.tiling.tiles();
    const std::int64_t step = convolution.tiles_in_memory();
    const Copies copies(convolution.in, step);
    for (std::int64_t begin = 0; begin < count; begin += step) {
      const TileGroups groups(convolution.tiling, begin, std::min(count, begin + step));
      read_images(convolution.tiling, x, groups.tiles(), copies);
      visit_images(x, y, [&]<class T, class Out>(const T*, Out* results) {
        multiply_all(convolution, {groups, copies}, weight, bias, results, y.strides());
      });
    }
  } else {
    kernels::fail_without_avx2();
  }
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mezzo::kernels::winograd {

HWY_EXPORT(convolve_by_outputs);

void convolve_by_outputs(const Convolution& convolution, const Tensor& x,
                         const RoundedWeight& weight, const float* bias, const Tensor& y) {
  HWY_DYNAMIC_DISPATCH(convolve_by_outputs)(convolution, x, weight, bias, y);
}

}  // namespace mezzo::kernels::winograd
#endif
