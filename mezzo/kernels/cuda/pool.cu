// Pooling over channels-last images: threads of a warp have adjacent channels. Gradients are
// gathered, each pixel looking at the windows over it, so that there are no atomic additions.
#include <algorithm>

#include "mezzo/kernels/cuda/element.cuh"
#include "mezzo/kernels/cuda/image_place.cuh"
#include "mezzo/kernels/cuda/launch.cuh"
#include "mezzo/ops/pool_attrs.h"

namespace mezzo::kernels::cuda {
namespace {

// Images of one size, and the windows over them. Indices have 32 bits if all fit: a 64-bit division
// takes a GPU about a hundred instructions, and there are several per element.
template <class Index>
struct PoolOf {
  PoolAxisOf<Index> rows;
  PoolAxisOf<Index> columns;
  Index batch = 0;
  Index channels = 0;
  bool count_include_pad = true;

  __host__ __device__ Index windows() const { return batch * rows.out * columns.out * channels; }
  __host__ __device__ Index pixels() const { return batch * rows.in * columns.in * channels; }
  __device__ Index window(Index n, Index row, Index column, Index c) const {
    return ((n * rows.out + row) * columns.out + column) * channels + c;
  }
  __device__ Index pixel(Index n, Index h, Index w, Index c) const {
    return ((n * rows.in + h) * columns.in + w) * channels + c;
  }
  __device__ float divisor(Index row, Index column) const {
    if (count_include_pad) return static_cast<float>(rows.kernel * columns.kernel);
    return static_cast<float>((rows.last(row) - rows.first(row)) *
                              (columns.last(column) - columns.first(column)));
  }
};
using Pool = PoolOf<std::int64_t>;

// Each thread has N adjacent channels.
template <int N, class Index, class T, class P>
__global__ void max_pool_kernel(PoolOf<Index> pool, const T* x, T* out, P* positions) {
  const Index packs = pool.windows() / N;
  for (Index i = static_cast<Index>(grid_first()); i < packs;
       i += static_cast<Index>(grid_step())) {
    const auto at = image_place_of<Index>(i, pool.rows.out, pool.columns.out, pool.channels / N);
    float best[N];
    Index best_position[N];
#pragma unroll
    for (int k = 0; k < N; ++k) {
      best[k] = -INFINITY;
      best_position[k] = -1;
    }
    for (Index h = pool.rows.first(at.y); h < pool.rows.last(at.y); ++h) {
      for (Index w = pool.columns.first(at.x); w < pool.columns.last(at.x); ++w) {
        float values[N];
        load(x + pool.pixel(at.n, h, w, at.c * N), values);
        const Index position =
            (h - pool.rows.start(at.y)) * pool.columns.kernel + w - pool.columns.start(at.x);
#pragma unroll
        for (int k = 0; k < N; ++k) {
          if (best_position[k] >= 0 && !(values[k] > best[k]) && !isnan(values[k])) continue;
          best[k] = values[k];
          best_position[k] = position;
        }
      }
    }
    store(best, out + i * N);
    Pack<P, N> pack;
#pragma unroll
    for (int k = 0; k < N; ++k) pack.values[k] = static_cast<P>(best_position[k]);
    *reinterpret_cast<Pack<P, N>*>(positions + i * N) = pack;
  }
}

template <int N, class Index, class T, class P>
__global__ void max_grad_kernel(PoolOf<Index> pool, const T* grad, const P* positions, T* out) {
  const Index packs = pool.pixels() / N;
  for (Index i = static_cast<Index>(grid_first()); i < packs;
       i += static_cast<Index>(grid_step())) {
    const auto at = image_place_of<Index>(i, pool.rows.in, pool.columns.in, pool.channels / N);
    const Index last_row = pool.rows.last_over(at.y);
    const Index first_column = pool.columns.first_over(at.x);
    const Index last_column = pool.columns.last_over(at.x);
    float sums[N] = {};
    for (Index row = pool.rows.first_over(at.y); row < last_row; ++row) {
      for (Index column = first_column; column < last_column; ++column) {
        const Index position =
            (at.y - pool.rows.start(row)) * pool.columns.kernel + at.x - pool.columns.start(column);
        const Index window = pool.window(at.n, row, column, at.c * N);
        const auto chosen = *reinterpret_cast<const Pack<P, N>*>(positions + window);
        float values[N];
        load(grad + window, values);
#pragma unroll
        for (int k = 0; k < N; ++k) {
          if (static_cast<std::int64_t>(chosen.values[k]) == position) sums[k] += values[k];
        }
      }
    }
    store(sums, out + i * N);
  }
}

template <class T, class P>
__global__ void pick_kernel(Pool pool, std::int64_t count, const T* x, const P* positions, T* out) {
  for (std::int64_t i = grid_first(); i < count; i += grid_step()) {
    const auto at = image_place_of(i, pool.rows.out, pool.columns.out, pool.channels);
    const auto position = static_cast<std::int64_t>(positions[i]);
    const std::int64_t h = pool.rows.start(at.y) + position / pool.columns.kernel;
    const std::int64_t w = pool.columns.start(at.x) + position % pool.columns.kernel;
    const bool is_inside =
        position >= 0 && h >= 0 && h < pool.rows.last(at.y) && w >= 0 && w < pool.columns.in;
    out[i] = is_inside ? x[pool.pixel(at.n, h, w, at.c)] : narrow<T>(0.0F);
  }
}

template <int N, class Index, class T>
__global__ void mean_pool_kernel(PoolOf<Index> pool, const T* x, T* out) {
  const Index packs = pool.windows() / N;
  for (Index i = static_cast<Index>(grid_first()); i < packs;
       i += static_cast<Index>(grid_step())) {
    const auto at = image_place_of<Index>(i, pool.rows.out, pool.columns.out, pool.channels / N);
    float sums[N] = {};
    // Row by row: a single sum over a large image would lose the last digits of every pixel.
    for (Index h = pool.rows.first(at.y); h < pool.rows.last(at.y); ++h) {
      float row[N] = {};
      // Loads several pixels together: the mean of a whole image has few threads.
#pragma unroll 4
      for (Index w = pool.columns.first(at.x); w < pool.columns.last(at.x); ++w) {
        float values[N];
        load(x + pool.pixel(at.n, h, w, at.c * N), values);
#pragma unroll
        for (int k = 0; k < N; ++k) row[k] += values[k];
      }
#pragma unroll
      for (int k = 0; k < N; ++k) sums[k] += row[k];
    }
    const float divisor = pool.divisor(at.y, at.x);
#pragma unroll
    for (int k = 0; k < N; ++k) sums[k] /= divisor;
    store(sums, out + i * N);
  }
}

template <int N, class Index, class T>
__global__ void mean_grad_kernel(PoolOf<Index> pool, const T* grad, T* out) {
  const Index packs = pool.pixels() / N;
  for (Index i = static_cast<Index>(grid_first()); i < packs;
       i += static_cast<Index>(grid_step())) {
    const auto at = image_place_of<Index>(i, pool.rows.in, pool.columns.in, pool.channels / N);
    const Index last_row = pool.rows.last_over(at.y);
    const Index last_column = pool.columns.last_over(at.x);
    float sums[N] = {};
    for (Index row = pool.rows.first_over(at.y); row < last_row; ++row) {
      for (Index column = pool.columns.first_over(at.x); column < last_column; ++column) {
        float values[N];
        load(grad + pool.window(at.n, row, column, at.c * N), values);
        const float divisor = pool.divisor(row, column);
#pragma unroll
        for (int k = 0; k < N; ++k) sums[k] += values[k] / divisor;
      }
    }
    store(sums, out + i * N);
  }
}

// The gradient of the mean of whole images, with one image per row of the grid.
template <int N, class T>
__global__ void spread_mean_kernel(std::int64_t packs, std::int64_t packs_per_pixel, float pixels,
                                   const T* grad, T* out) {
  const std::int64_t image = blockIdx.y;
  for (std::int64_t i = grid_first(); i < packs; i += grid_step()) {
    float values[N];
    load(grad + (image * packs_per_pixel + i % packs_per_pixel) * N, values);
#pragma unroll
    for (int k = 0; k < N; ++k) values[k] /= pixels;
    store(values, out + (image * packs + i) * N);
  }
}

bool is_mean_of_images(const Pool& p) {
  constexpr std::int64_t kMostRows = 65535;  // of a grid
  const auto is_whole = [](const auto& axis) {
    return axis.out == 1 && axis.before == 0 && axis.kernel == axis.in;
  };
  return is_whole(p.rows) && is_whole(p.columns) && p.batch <= kMostRows;
}

Pool pool_of(const KernelArgs& args, const Shape& image, const Shape& windows) {
  const auto& attrs = args.attrs<Pool2dAttrs>();
  return {rows_of(attrs, image[2], windows[2]), columns_of(attrs, image[3], windows[3]), image[0],
          image[1], attrs.count_include_pad};
}

// The geometry in 32 bits, if the indices still fit after a grid-wide loop adds its step.
PoolOf<std::int32_t> narrow_pool(const Pool& p) {
  const auto axis = [](const PoolAxis& a) {
    const auto n = [](std::int64_t number) { return static_cast<std::int32_t>(number); };
    return PoolAxisOf<std::int32_t>{n(a.in), n(a.out), n(a.kernel), n(a.stride), n(a.before)};
  };
  return {axis(p.rows), axis(p.columns), static_cast<std::int32_t>(p.batch),
          static_cast<std::int32_t>(p.channels), p.count_include_pad};
}
bool is_narrow(const Pool& p) {
  const std::int64_t padded = (p.rows.in + 2 * p.rows.before + p.rows.kernel) *
                              (p.columns.in + 2 * p.columns.before + p.columns.kernel);
  // Leaves a margin for the largest grid's step, some ten million elements.
  constexpr std::int64_t kMost = (std::int64_t{1} << 31) - (std::int64_t{1} << 26);
  return std::max({p.windows(), p.pixels(), padded, p.rows.stride, p.columns.stride}) <= kMost;
}

// Calls use.operator()<N>(pool) with packs of N channels if all tensors allow it, and with 32-bit
// indices if they fit.
template <class T, std::size_t kAlignment = 16, class Use>
void visit_pool(const Pool& pool, std::initializer_list<const void*> memory, const Use& use) {
  visit_packs<T, kAlignment>(pool.channels, memory, [&]<int N>() {
    if constexpr (N > 1) {
      if (is_narrow(pool)) return use.template operator()<N>(narrow_pool(pool));
    }
    use.template operator()<1>(pool);
  });
}

// The alignment that packs of values and of positions need.
template <class T, class P>
constexpr std::size_t kAlignmentWith = std::max<std::size_t>(16, kPackOf<T> * sizeof(P));

// Calls function.operator()<P>() for the integer type of the positions.
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
      T* to = out<T>(args.output());
      P* positions = out<P>(args.output(1));
      visit_pool<T, kAlignmentWith<T, P>>(
          pool, {x.address(), to, positions}, [&]<int N>(const auto& p) {
            max_pool_kernel<N>
                <<<launch.blocks_for(p.windows() / N), kThreads, 0, launch.stream()>>>(
                    p, in<T>(x), to, positions);
          });
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
      T* to = out<T>(args.output());
      visit_pool<T, kAlignmentWith<T, P>>(
          pool, {to, grad.address(), positions.address()}, [&]<int N>(const auto& p) {
            max_grad_kernel<N><<<launch.blocks_for(p.pixels() / N), kThreads, 0, launch.stream()>>>(
                p, in<T>(grad), in<P>(positions), to);
          });
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
    T* to = out<T>(args.output());
    visit_pool<T>(pool, {x.address(), to}, [&]<int N>(const auto& p) {
      mean_pool_kernel<N>
          <<<launch.blocks_for(p.windows() / N), kThreads, 0, launch.stream()>>>(p, in<T>(x), to);
    });
  });
  check_launch("mean_pool_kernel");
}

void spread_mean(const Launch& launch, const Pool& pool, const Tensor& grad, const Tensor& output) {
  const std::int64_t pixels = pool.rows.in * pool.columns.in;
  visit_vector_dtype(grad.dtype(), [&]<class T>() {
    visit_packs<T>(pool.channels, {grad.address(), output.address()}, [&]<int N>() {
      const std::int64_t packs = pool.channels / N;
      const auto blocks = static_cast<unsigned>((pixels * packs + kThreads - 1) / kThreads);
      const dim3 grid(blocks, static_cast<unsigned>(pool.batch));
      spread_mean_kernel<N><<<grid, kThreads, 0, launch.stream()>>>(
          pixels * packs, packs, static_cast<float>(pixels), in<T>(grad), out<T>(output));
    });
  });
  check_launch("spread_mean_kernel");
}

void run_mean_grad(const KernelArgs& args) {
  const Tensor grad = dense(args.input(0), kImages);
  const Launch launch(grad);
  const Pool pool = pool_of(args, args.output().shape(), grad.shape());
  if (is_mean_of_images(pool)) return spread_mean(launch, pool, grad, args.output());
  visit_vector_dtype(grad.dtype(), [&]<class T>() {
    T* to = out<T>(args.output());
    visit_pool<T>(pool, {grad.address(), to}, [&]<int N>(const auto& p) {
      mean_grad_kernel<N>
          <<<launch.blocks_for(p.pixels() / N), kThreads, 0, launch.stream()>>>(p, in<T>(grad), to);
    });
  });
  check_launch("mean_grad_kernel");
}

Support supports(const KernelArgs& args) {
  if (!is_vector_dtype(args.input(0).dtype())) {
    return Support::no("only f32, bf16 and f16 are supported on GPUs");
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
