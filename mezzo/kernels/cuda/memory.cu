// Filling and copying, for all dtypes and layouts. There are three ways to copy, by what the
// layouts have in common:
// * one flat pass if the orders agree;
// * square tiles through shared memory if one side's contiguous elements are the other side's
//   columns: row-major to channels-last and back, transposed matrices. A plain loop would touch 32
//   sectors for a warp's 32 elements;
// * element by element otherwise.
#include "mezzo/core/convert_element.h"
#include "mezzo/kernels/cpu/loops/cast_rows.h"
#include "mezzo/kernels/cuda/map.cuh"
#include "mezzo/kernels/cuda/memory.h"

namespace mezzo::kernels::cuda {
namespace {

// Converts an element to another dtype by the rules of copy_elements() in core.
template <class To>
struct Convert {
  static constexpr bool kIsRaw = true;

  template <class From>
  __device__ To operator()(From value) const {
    if constexpr (std::is_same_v<To, From>) {
      return value;
    } else if constexpr (kIsHalf<From>) {
      return (*this)(widen(value));
    } else if constexpr (kIsHalf<To>) {
      return narrow<To>(f32_for_half(value));
    } else {
      return convert_element<To>(value);
    }
  }
};

struct Identity {
  __device__ float operator()(float x) const { return x; }
};

template <class T>
struct Constant {
  static constexpr bool kIsRaw = true;
  T value;
  __device__ T operator()() const { return value; }
};

constexpr int kTile = 32;
constexpr int kTileRows = 8;

// One plane of a batch of transpositions: in[column * in_step + row], out[row * out_step + column].
struct Planes {
  std::int64_t planes, in_plane, out_plane;
  std::int64_t rows, columns;  // of the output
  std::int64_t in_step, out_step;
};

template <class In, class Out>
__global__ void transpose_kernel(Planes p, const In* in, Out* out) {
  // One unused column: otherwise the 32 rows that a warp reads would be in one bank.
  __shared__ In tile[kTile][kTile + 1];
  const std::int64_t across = (p.columns + kTile - 1) / kTile;
  const std::int64_t down = (p.rows + kTile - 1) / kTile;
  for (std::int64_t t = blockIdx.x; t < p.planes * across * down; t += gridDim.x) {
    const std::int64_t column = t % across * kTile;
    const std::int64_t row = t / across % down * kTile;
    const std::int64_t plane = t / (across * down);
    const In* from = in + plane * p.in_plane;
    Out* to = out + plane * p.out_plane;
    for (int k = threadIdx.y; k < kTile; k += kTileRows) {
      const std::int64_t c = column + k;
      const std::int64_t r = row + threadIdx.x;
      if (c < p.columns && r < p.rows) tile[k][threadIdx.x] = from[c * p.in_step + r];
    }
    __syncthreads();
    for (int k = threadIdx.y; k < kTile; k += kTileRows) {
      const std::int64_t r = row + k;
      const std::int64_t c = column + threadIdx.x;
      if (c < p.columns && r < p.rows) {
        to[r * p.out_step + c] = Convert<Out>()(tile[threadIdx.x][k]);
      }
    }
    __syncthreads();
  }
}

// Sees the loop as transpositions, if possible; operand 0 is the output, 1 the input.
bool as_planes(const Loop<2>& loop, Planes& planes) {
  const std::size_t last = loop.rank() - 1;
  if (loop.rank() < 2 || loop.rank() > 3 || loop.inner_stride(0) != 1) return false;
  const std::size_t row_axis = loop.strides[1][last - 1] == 1 ? last - 1 : 0;
  if (loop.strides[1][row_axis] != 1) return false;
  const std::size_t plane_axis = loop.rank() == 2 ? last : (row_axis == 0 ? 1 : 0);
  const bool is_batch = loop.rank() == 3;
  planes = {is_batch ? loop.sizes[plane_axis] : 1,
            is_batch ? loop.strides[1][plane_axis] : 0,
            is_batch ? loop.strides[0][plane_axis] : 0,
            loop.sizes[row_axis],
            loop.inner(),
            loop.inner_stride(1),
            loop.strides[0][row_axis]};
  return true;
}

template <class In, class Out>
void transpose(const Launch& launch, const Planes& planes, const In* from, Out* to) {
  const std::int64_t tiles =
      planes.planes * ((planes.columns + kTile - 1) / kTile) * ((planes.rows + kTile - 1) / kTile);
  const int blocks = launch.blocks_for(tiles * kThreads);
  transpose_kernel<<<blocks, dim3(kTile, kTileRows), 0, launch.stream()>>>(planes, from, to);
  check_launch("transpose_kernel");
}

template <class In, class Out>
void copy_strided(const Launch& launch, const Loop<2>& loop, const In* from, Out* to) {
  constexpr bool kFloats = size_of(kDTypeOf<In>) <= 4 && is_floating(kDTypeOf<In>) &&
                           size_of(kDTypeOf<Out>) <= 4 && is_floating(kDTypeOf<Out>);
  [[maybe_unused]] Planes planes{};
  // Layout changes of integers and f64 are too rare to be worth the code.
  if constexpr (kFloats) {
    if (as_planes(loop, planes)) return transpose(launch, planes, from, to);
  }
  map_strided(launch, Convert<Out>(), loop, to, from);
}

}  // namespace

void fill_tensor(const Tensor& tensor, double value) {
  const Launch launch(tensor);
  const auto loop = make_loop<1>(tensor.shape(), {tensor.strides()});
  visit_dtype(tensor.dtype(), [&]<class T>() {
    map_strided(launch, Constant<T>{convert_element<T>(value)}, loop,
                static_cast<T*>(tensor.address()));
  });
}

void copy_tensor(const Tensor& source, const Tensor& destination) {
  if (source.numel() == 0) return;
  const Launch launch(source);
  if (same_dense_layout(source, destination)) {
    if (source.dtype() == destination.dtype()) {
      MEZZO_CUDA_CHECK(cudaMemcpyAsync(destination.address(), source.address(), source.bytes(),
                                       cudaMemcpyDeviceToDevice, launch.stream()));
      return;
    }
    bool done = false;
    visit_cast_dtype(source.dtype(), [&]<class In>() {
      done = visit_cast_dtype(destination.dtype(), [&]<class Out>() {
        map(launch, Identity(), source.numel(), static_cast<Out*>(destination.address()),
            in<In>(source));
      });
    });
    if (done) return;
  }
  const auto loop = make_loop<2>(source.shape(), {destination.strides(), source.strides()});
  visit_dtype(source.dtype(), [&]<class In>() {
    visit_dtype(destination.dtype(), [&]<class Out>() {
      copy_strided(launch, loop, in<In>(source), static_cast<Out*>(destination.address()));
    });
  });
}

}  // namespace mezzo::kernels::cuda
