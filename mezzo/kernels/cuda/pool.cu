// Pooling over channels-last images: threads of a warp have neighbouring channels. Gradients are
// gathered, each pixel looking at the windows over it, so that nothing is added atomically.
#include "mezzo/kernels/cuda/element.cuh"
#include "mezzo/kernels/cuda/launch.cuh"
#include "mezzo/ops/pool_attrs.h"

namespace mezzo::kernels::cuda {
namespace {

// Images of one size, and windows over them.
struct Pool {
  PoolAxis rows;
  PoolAxis columns;
  std::int64_t batch = 0;
  std::int64_t channels = 0;
  bool count_include_pad = true;

  std::int64_t windows() const { return batch * rows.out * columns.out * channels; }
  std::int64_t pixels() const { return batch * rows.in * columns.in * channels; }
  __device__ std::int64_t window(std::int64_t n, std::int64_t row, std::int64_t column,
                                 std::int64_t c) const {
    return ((n * rows.out + row) * columns.out + column) * channels + c;
  }
  __device__ std::int64_t pixel(std::int64_t n, std::int64_t h, std::int64_t w,
                                std::int64_t c) const {
    return ((n * rows.in + h) * columns.in + w) * channels + c;
  }
  __device__ float divisor(std::int64_t row, std::int64_t column) const {
    if (count_include_pad) return static_cast<float>(rows.kernel * columns.kernel);
    return static_cast<float>((rows.last(row) - rows.first(row)) *
                              (columns.last(column) - columns.first(column)));
  }
};

struct Place {
  std::int64_t n, y, x, c;
};

// Element `i` of channels-last images, in 32-bit divisions where they do.
__device__ Place place_of(std::int64_t i, std::int64_t height, std::int64_t width,
                          std::int64_t channels) {
  const auto split = [&](auto index) -> Place {
    using Index = decltype(index);
    const auto c = static_cast<Index>(channels);
    const auto w = static_cast<Index>(width);
    const auto h = static_cast<Index>(height);
    const Index pixel = index / c;
    const Index row = pixel / w;
    return {static_cast<std::int64_t>(row / h), static_cast<std::int64_t>(row % h),
            static_cast<std::int64_t>(pixel % w), static_cast<std::int64_t>(index % c)};
  };
  return i <= 0x7fffffff ? split(static_cast<std::uint32_t>(i))
                         : split(static_cast<std::uint64_t>(i));
}

template <class T, class P>
__global__ void max_pool_kernel(Pool pool, std::int64_t count, const T* x, T* out, P* positions) {
  for (std::int64_t i = grid_first(); i < count; i += grid_step()) {
    const Place at = place_of(i, pool.rows.out, pool.columns.out, pool.channels);
    float best = -INFINITY;
    std::int64_t best_position = -1;
    for (std::int64_t h = pool.rows.first(at.y); h < pool.rows.last(at.y); ++h) {
      for (std::int64_t w = pool.columns.first(at.x); w < pool.columns.last(at.x); ++w) {
        const float value = widen(x[pool.pixel(at.n, h, w, at.c)]);
        if (best_position >= 0 && !(value > best) && !isnan(value)) continue;
        best = value;
        best_position =
            (h - pool.rows.start(at.y)) * pool.columns.kernel + w - pool.columns.start(at.x);
      }
    }
    out[i] = narrow<T>(best);
    positions[i] = static_cast<P>(best_position);
  }
}

template <class T, class P>
__global__ void max_grad_kernel(Pool pool, std::int64_t count, const T* grad, const P* positions,
                                T* out) {
  for (std::int64_t i = grid_first(); i < count; i += grid_step()) {
    const Place at = place_of(i, pool.rows.in, pool.columns.in, pool.channels);
    float sum = 0;
    for (std::int64_t row = pool.rows.first_over(at.y); row < pool.rows.last_over(at.y); ++row) {
      for (std::int64_t column = pool.columns.first_over(at.x);
           column < pool.columns.last_over(at.x); ++column) {
        const std::int64_t position =
            (at.y - pool.rows.start(row)) * pool.columns.kernel + at.x - pool.columns.start(column);
        const std::int64_t window = pool.window(at.n, row, column, at.c);
        if (static_cast<std::int64_t>(positions[window]) == position) sum += widen(grad[window]);
      }
    }
    out[i] = narrow<T>(sum);
  }
}

template <class T, class P>
__global__ void pick_kernel(Pool pool, std::int64_t count, const T* x, const P* positions, T* out) {
  for (std::int64_t i = grid_first(); i < count; i += grid_step()) {
    const Place at = place_of(i, pool.rows.out, pool.columns.out, pool.channels);
    const auto position = static_cast<std::int64_t>(positions[i]);
    const std::int64_t h = pool.rows.start(at.y) + position / pool.columns.kernel;
    const std::int64_t w = pool.columns.start(at.x) + position % pool.columns.kernel;
    const bool is_inside =
        position >= 0 && h >= 0 && h < pool.rows.last(at.y) && w >= 0 && w < pool.columns.in;
    out[i] = is_inside ? x[pool.pixel(at.n, h, w, at.c)] : narrow<T>(0.0F);
  }
}

template <class T>
__global__ void mean_pool_kernel(Pool pool, std::int64_t count, const T* x, T* out) {
  for (std::int64_t i = grid_first(); i < count; i += grid_step()) {
    const Place at = place_of(i, pool.rows.out, pool.columns.out, pool.channels);
    float sum = 0;
    for (std::int64_t h = pool.rows.first(at.y); h < pool.rows.last(at.y); ++h) {
      for (std::int64_t w = pool.columns.first(at.x); w < pool.columns.last(at.x); ++w) {
        sum += widen(x[pool.pixel(at.n, h, w, at.c)]);
      }
    }
    out[i] = narrow<T>(sum / pool.divisor(at.y, at.x));
  }
}

template <class T>
__global__ void mean_grad_kernel(Pool pool, std::int64_t count, const T* grad, T* out) {
  for (std::int64_t i = grid_first(); i < count; i += grid_step()) {
    const Place at = place_of(i, pool.rows.in, pool.columns.in, pool.channels);
    float sum = 0;
    for (std::int64_t row = pool.rows.first_over(at.y); row < pool.rows.last_over(at.y); ++row) {
      for (std::int64_t column = pool.columns.first_over(at.x);
           column < pool.columns.last_over(at.x); ++column) {
        sum += widen(grad[pool.window(at.n, row, column, at.c)]) / pool.divisor(row, column);
      }
    }
    out[i] = narrow<T>(sum);
  }
}

Pool pool_of(const KernelArgs& args, const Shape& image, const Shape& windows) {
  const auto& attrs = args.attrs<Pool2dAttrs>();
  return {rows_of(attrs, image[2], windows[2]), columns_of(attrs, image[3], windows[3]), image[0],
          image[1], attrs.count_include_pad};
}

// Calls function.operator()<P>() for the integers that positions are stored as.
template <class Function>
void visit_positions(DType dtype, const Function& function) {
  switch (dtype) {
    case DType::kU8: return function.template operator()<std::uint8_t>();
    case DType::kI32: return function.template operator()<std::int32_t>();
    default: return function.template operator()<std::int64_t>();
  }
}

constexpr Format kImages = Format::kChannelsLast;

void run_max(const KernelArgs& args) {
  const Tensor x = dense(args.input(0), kImages);
  const Launch launch(x);
  const Pool pool = pool_of(args, x.shape(), args.output().shape());
  visit_vector_dtype(x.dtype(), [&]<class T>() {
    visit_positions(args.output(1).dtype(), [&]<class P>() {
      max_pool_kernel<<<launch.blocks_for(pool.windows()), kThreads, 0, launch.stream()>>>(
          pool, pool.windows(), in<T>(x), out<T>(args.output()), out<P>(args.output(1)));
    });
  });
  check_launch("max_pool_kernel");
}

void run_max_grad(const KernelArgs& args) {
  const Tensor grad = dense(args.input(0), kImages);
  const Tensor positions = dense(args.input(1), kImages);
  const Launch launch(grad);
  const Pool pool = pool_of(args, args.output().shape(), grad.shape());
  visit_vector_dtype(grad.dtype(), [&]<class T>() {
    visit_positions(positions.dtype(), [&]<class P>() {
      max_grad_kernel<<<launch.blocks_for(pool.pixels()), kThreads, 0, launch.stream()>>>(
          pool, pool.pixels(), in<T>(grad), in<P>(positions), out<T>(args.output()));
    });
  });
  check_launch("max_grad_kernel");
}

void run_pick(const KernelArgs& args) {
  const Tensor x = dense(args.input(0), kImages);
  const Tensor positions = dense(args.input(1), kImages);
  const Launch launch(x);
  const Pool pool = pool_of(args, x.shape(), args.output().shape());
  visit_vector_dtype(x.dtype(), [&]<class T>() {
    visit_positions(positions.dtype(), [&]<class P>() {
      pick_kernel<<<launch.blocks_for(pool.windows()), kThreads, 0, launch.stream()>>>(
          pool, pool.windows(), in<T>(x), in<P>(positions), out<T>(args.output()));
    });
  });
  check_launch("pick_kernel");
}

void run_mean(const KernelArgs& args) {
  const Tensor x = dense(args.input(0), kImages);
  const Launch launch(x);
  const Pool pool = pool_of(args, x.shape(), args.output().shape());
  visit_vector_dtype(x.dtype(), [&]<class T>() {
    mean_pool_kernel<<<launch.blocks_for(pool.windows()), kThreads, 0, launch.stream()>>>(
        pool, pool.windows(), in<T>(x), out<T>(args.output()));
  });
  check_launch("mean_pool_kernel");
}

void run_mean_grad(const KernelArgs& args) {
  const Tensor grad = dense(args.input(0), kImages);
  const Launch launch(grad);
  const Pool pool = pool_of(args, args.output().shape(), grad.shape());
  visit_vector_dtype(grad.dtype(), [&]<class T>() {
    mean_grad_kernel<<<launch.blocks_for(pool.pixels()), kThreads, 0, launch.stream()>>>(
        pool, pool.pixels(), in<T>(grad), out<T>(args.output()));
  });
  check_launch("mean_grad_kernel");
}

Support supports(const KernelArgs& args) {
  if (!is_vector_dtype(args.input(0).dtype())) {
    return Support::no("only f32, bf16 and f16 are computed on cards");
  }
  if (!args.has(1)) return Support::yes();
  const DType dtype = args.input(1).dtype();
  return dtype == DType::kU8 || dtype == DType::kI32 || dtype == DType::kI64
             ? Support::yes()
             : Support::no("positions are u8, i32 or i64");
}

}  // namespace

extern const KernelList max_pool2d{{{{"cuda", supports, run_max}}}};
extern const KernelList max_pool2d_grad{{{{"cuda", supports, run_max_grad}}}};
extern const KernelList max_pool2d_pick{{{{"cuda", supports, run_pick}}}};
extern const KernelList avg_pool2d{{{{"cuda", supports, run_mean}}}};
extern const KernelList avg_pool2d_grad{{{{"cuda", supports, run_mean_grad}}}};

}  // namespace mezzo::kernels::cuda
