// Bilinear interpolation and its gradient over channels-last images: threads of a warp have
// adjacent channels. Both are weighted sums. The forward pass sums the pixels around a result, the
// gradient the results around a pixel, so that there are no atomic additions.
#include "mezzo/kernels/cuda/element.cuh"
#include "mezzo/kernels/cuda/image_place.cuh"
#include "mezzo/kernels/cuda/launch.cuh"
#include "mezzo/ops/upsample_attrs.h"

namespace mezzo::kernels::cuda {
namespace {

// Images and their results. Indices have 32 bits if all fit, since positions are found by division.
template <class Index>
struct InterpolationOf {
  BilinearAxisOf<Index> rows;
  BilinearAxisOf<Index> columns;
  Index batch;
  Index channels;

  __host__ __device__ Index pixels() const { return batch * rows.in * columns.in * channels; }
  __host__ __device__ Index results() const { return batch * rows.out * columns.out * channels; }
};
using Interpolation = InterpolationOf<std::int64_t>;

// One axis in the forward pass: results are written from the pixels around them.
template <class Index>
struct ForwardAxis {
  BilinearAxisOf<Index> axis;

  __device__ Index read() const { return axis.in; }
  __device__ Index written() const { return axis.out; }
  __device__ auto around(Index result) const { return axis.pixels_of(result); }
  __device__ float weight(Index result, Index pixel) const {
    return axis.template weight<float>(result, pixel);
  }
};

// One axis in the gradient: pixels are written from the results around them.
template <class Index>
struct GradientAxis {
  BilinearAxisOf<Index> axis;

  __device__ Index read() const { return axis.out; }
  __device__ Index written() const { return axis.in; }
  __device__ auto around(Index pixel) const { return axis.results_of(pixel); }
  __device__ float weight(Index pixel, Index result) const {
    return axis.template weight<float>(result, pixel);
  }
};

template <int N, class Axis, class Index, class T>
__global__ void interpolate_kernel(Axis rows, Axis columns, Index count, Index channels,
                                   const T* from, T* to) {
  for (Index i = static_cast<Index>(grid_first()); i < count / N;
       i += static_cast<Index>(grid_step())) {
    const auto at = image_place_of<Index>(i, rows.written(), columns.written(), channels / N);
    const auto above = rows.around(at.y);
    const auto beside = columns.around(at.x);
    float sums[N] = {};
    for (Index h = above.first; h < above.last; ++h) {
      const float row_weight = rows.weight(at.y, h);
      const T* row = from + (at.n * rows.read() + h) * columns.read() * channels + at.c * N;
#pragma unroll 2
      for (Index w = beside.first; w < beside.last; ++w) {
        const float weight = row_weight * columns.weight(at.x, w);
        float values[N];
        load(row + w * channels, values);
#pragma unroll
        for (int k = 0; k < N; ++k) sums[k] += weight * values[k];
      }
    }
    store(sums, to + i * N);
  }
}

Interpolation interpolation_of(const KernelArgs& args, const Shape& image) {
  const auto& attrs = args.attrs<UpsampleBilinearAttrs>();
  return {bilinear_axis(image[2], attrs.size.h, attrs.align_corners),
          bilinear_axis(image[3], attrs.size.w, attrs.align_corners), image[0], image[1]};
}

// The geometry in 32 bits, if the indices still fit after a grid-wide loop adds its step.
InterpolationOf<std::int32_t> narrow_interpolation(const Interpolation& problem) {
  const auto n = [](std::int64_t number) { return static_cast<std::int32_t>(number); };
  const auto axis = [&](const BilinearAxis& a) {
    return BilinearAxisOf<std::int32_t>{n(a.in), n(a.out), n(a.slope), n(a.shift), n(a.unit)};
  };
  return {axis(problem.rows), axis(problem.columns), n(problem.batch), n(problem.channels)};
}
bool is_narrow_interpolation(const Interpolation& problem) {
  // Leaves a margin for the largest grid's step, some ten million elements.
  constexpr std::int64_t kMost = (std::int64_t{1} << 31) - (std::int64_t{1} << 26);
  const auto is_narrow = [](const BilinearAxis& a) { return a.in + 1 <= kMost / 2 / (a.out + 1); };
  return problem.pixels() <= kMost && problem.results() <= kMost && is_narrow(problem.rows) &&
         is_narrow(problem.columns);
}

// Calls use.operator()<N>(problem) with packs of N channels if all tensors allow it, and with
// 32-bit indices if they fit.
template <class T, class Use>
void visit_interpolation(const Interpolation& problem, std::initializer_list<const void*> memory,
                         const Use& use) {
  visit_packs<T>(problem.channels, memory, [&]<int N>() {
    if constexpr (N > 1) {
      if (is_narrow_interpolation(problem)) {
        return use.template operator()<N>(narrow_interpolation(problem));
      }
    }
    use.template operator()<1>(problem);
  });
}

// `Axis` is ForwardAxis or GradientAxis.
template <template <class> class Axis>
void interpolate(const KernelArgs& args, const Tensor& from, const Shape& image) {
  const Launch launch(from);
  const std::int64_t written = args.output().numel();
  visit_vector_dtype(from.dtype(), [&]<class T>() {
    T* to = out<T>(args.output());
    const Interpolation wide = interpolation_of(args, image);
    visit_interpolation<T>(
        wide, {from.address(), to}, [&]<int N, class Index>(const InterpolationOf<Index>& problem) {
          interpolate_kernel<N><<<launch.blocks_for(written / N), kThreads, 0, launch.stream()>>>(
              Axis<Index>{problem.rows}, Axis<Index>{problem.columns}, static_cast<Index>(written),
              problem.channels, in<T>(from), to);
        });
  });
  check_launch("interpolate_kernel");
}

void run_bilinear(const KernelArgs& args) {
  const Tensor x = dense(args.input(0), Format::kChannelsLast);
  interpolate<ForwardAxis>(args, x, x.shape());
}

void run_bilinear_grad(const KernelArgs& args) {
  const Tensor grad = dense(args.input(0), Format::kChannelsLast);
  interpolate<GradientAxis>(args, grad, args.output().shape());
}

}  // namespace

extern const KernelList upsample_bilinear2d{{{{"cuda", float_dtypes_only, run_bilinear}}}};
extern const KernelList upsample_bilinear2d_grad{
    {{{"cuda", float_dtypes_only, run_bilinear_grad}}}};

}  // namespace mezzo::kernels::cuda
