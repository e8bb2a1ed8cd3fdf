// Enlarging by repeating pixels, and its gradient, over channels-last images: threads of a warp
// have adjacent channels.
#include "mezzo/kernels/cuda/element.cuh"
#include "mezzo/kernels/cuda/image_place.cuh"
#include "mezzo/kernels/cuda/launch.cuh"
#include "mezzo/ops/upsample_attrs.h"

namespace mezzo::kernels::cuda {
namespace {

// The size of the small images; every pixel of theirs is a block of scale_h by scale_w in the large
// ones.
struct Repetition {
  std::int64_t batch, height, width, channels;
  std::int64_t scale_h, scale_w;

  __host__ __device__ std::int64_t small_size() const { return batch * height * width * channels; }
  __host__ __device__ std::int64_t large_size() const { return small_size() * scale_h * scale_w; }
  __device__ std::int64_t small_at(std::int64_t n, std::int64_t y, std::int64_t x,
                                   std::int64_t c) const {
    return ((n * height + y) * width + x) * channels + c;
  }
  __device__ std::int64_t large_at(std::int64_t n, std::int64_t y, std::int64_t x,
                                   std::int64_t c) const {
    return ((n * height * scale_h + y) * width * scale_w + x) * channels + c;
  }
};

template <int N, class T>
__global__ void repeat_kernel(Repetition r, const T* x, T* out) {
  const std::int64_t packs = r.large_size() / N;
  for (std::int64_t i = grid_first(); i < packs; i += grid_step()) {
    const auto at = image_place_of(i, r.height * r.scale_h, r.width * r.scale_w, r.channels / N);
    const auto pack =
        read_stored<N>(x + r.small_at(at.n, at.y / r.scale_h, at.x / r.scale_w, at.c * N));
    *reinterpret_cast<Pack<T, N>*>(out + i * N) = pack;
  }
}

template <int N, class T>
__global__ void sum_repetitions_kernel(Repetition r, const T* grad, T* out) {
  const std::int64_t packs = r.small_size() / N;
  for (std::int64_t i = grid_first(); i < packs; i += grid_step()) {
    const auto at = image_place_of(i, r.height, r.width, r.channels / N);
    float sums[N] = {};
    for (std::int64_t h = 0; h < r.scale_h; ++h) {
#pragma unroll 4
      for (std::int64_t w = 0; w < r.scale_w; ++w) {
        float values[N];
        load(grad + r.large_at(at.n, at.y * r.scale_h + h, at.x * r.scale_w + w, at.c * N), values);
#pragma unroll
        for (int k = 0; k < N; ++k) sums[k] += values[k];
      }
    }
    store(sums, out + i * N);
  }
}

Repetition repetition_of(const KernelArgs& args, const Shape& small) {
  const Size2d scale = args.attrs<UpsampleAttrs>().scale;
  return {small[0], small[2], small[3], small[1], scale.h, scale.w};
}

void run(const KernelArgs& args) {
  const Tensor x = dense(args.input(0), Format::kChannelsLast);
  const Launch launch(x);
  const Repetition r = repetition_of(args, x.shape());
  visit_vector_dtype(x.dtype(), [&]<class T>() {
    T* to = out<T>(args.output());
    visit_packs<T>(r.channels, {x.address(), to}, [&]<int N>() {
      repeat_kernel<N><<<launch.blocks_for(r.large_size() / N), kThreads, 0, launch.stream()>>>(
          r, in<T>(x), to);
    });
  });
  check_launch("repeat_kernel");
}

void run_grad(const KernelArgs& args) {
  const Tensor grad = dense(args.input(0), Format::kChannelsLast);
  const Launch launch(grad);
  const Repetition r = repetition_of(args, args.output().shape());
  visit_vector_dtype(grad.dtype(), [&]<class T>() {
    T* to = out<T>(args.output());
    visit_packs<T>(r.channels, {grad.address(), to}, [&]<int N>() {
      sum_repetitions_kernel<N>
          <<<launch.blocks_for(r.small_size() / N), kThreads, 0, launch.stream()>>>(r, in<T>(grad),
                                                                                    to);
    });
  });
  check_launch("sum_repetitions_kernel");
}

}  // namespace

extern const KernelList upsample_nearest2d{{{{"cuda", float_dtypes_only, run}}}};
extern const KernelList upsample_nearest2d_grad{{{{"cuda", float_dtypes_only, run_grad}}}};

}  // namespace mezzo::kernels::cuda
