// Kernels over whole rows: threads share a row and exchange values.
#pragma once

#include "mezzo/kernels/cuda/element.cuh"
#include "mezzo/kernels/cuda/launch.cuh"

namespace mezzo::kernels::cuda {

// A dense tensor as rows along one axis: element j of row r is at start(r) + j * inner.
struct Rows {
  std::int64_t count = 0;
  std::int64_t size = 0;
  std::int64_t inner = 1;

  __host__ __device__ std::int64_t start(std::int64_t row) const {
    return inner == 1 ? row * size : row / inner * size * inner + row % inner;
  }
};

// The rows along `axis` of tensors of that shape, dense in that format.
inline Rows rows_along(const Shape& shape, std::size_t axis, Format format) {
  const std::int64_t size = shape[axis];
  return {size == 0 ? 0 : shape.numel() / size, size, strides_for(shape, format)[axis]};
}

struct SumOf {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
struct LargestOf {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};
struct SmallestOf {
  __device__ int operator()(int a, int b) const { return min(a, b); }
};

// The threads that share a row: one, a warp, or a whole thread block.
template <int kCount>
struct Team {
  static constexpr int kSize = kCount;
  static constexpr int kTeams = kThreads / kCount;  // per thread block

  __device__ static int lane() { return threadIdx.x % kCount; }
  __device__ static int team() { return threadIdx.x / kCount; }

  // Combines all threads' values; every thread gets the result. All threads of the team must call
  // it.
  template <class T, class Combine>
  __device__ static T all(T value, const Combine& combine) {
    if constexpr (kCount > 1) {
#pragma unroll
      for (int step = 16; step > 0; step /= 2) {
        value = combine(value, __shfl_xor_sync(0xffffffffU, value, step));
      }
    }
    if constexpr (kCount > 32) {
      __shared__ T of_warps[kThreads / 32];
      __syncthreads();  // the values of an earlier call have been read
      if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = value;
      __syncthreads();
      value = of_warps[0];
#pragma unroll
      for (int warp = 1; warp < kThreads / 32; ++warp) value = combine(value, of_warps[warp]);
    }
    return value;
  }
};

// Calls use(j) for this thread's elements of a row, N of them from j on at a time. The loads of
// several iterations overlap, unless `use` stores something.
template <class Of, int N, class Use>
__device__ inline void for_packs(std::int64_t size, const Use& use) {
#pragma unroll 4
  for (std::int64_t j = Of::lane() * N; j < size; j += Of::kSize * N) use(j);
}

// Loads N elements of an f32 array from element j on, or the default if there is no array.
template <int N>
__device__ inline void load_or(const float* numbers, std::int64_t j, float otherwise,
                               float (&to)[N]) {
  constexpr int kPart = N < kPackOf<float> ? N : kPackOf<float>;
#pragma unroll
  for (int first = 0; first < N; first += kPart) {
    float part[kPart];
#pragma unroll
    for (int k = 0; k < kPart; ++k) part[k] = otherwise;
    if (numbers != nullptr) load(numbers + j + first, part);
#pragma unroll
    for (int k = 0; k < kPart; ++k) to[first + k] = part[k];
  }
}

// Calls op.row<Team>(row, rows) for every row, on all threads of a team.
template <class TeamOfRow, class Op>
__global__ void rows_kernel(Op op, Rows rows) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * TeamOfRow::kTeams;
  std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * TeamOfRow::kTeams + TeamOfRow::team();
  for (; row < rows.count; row += step) op.template row<TeamOfRow>(row, rows);
}

template <int kCount, class Op>
void start_rows(const Launch& launch, const Op& op, const Rows& rows) {
  const int blocks = launch.blocks_for(rows.count * kCount);
  rows_kernel<Team<kCount>><<<blocks, kThreads, 0, launch.stream()>>>(op, rows);
  check_launch("rows_kernel");
}

// Contiguous rows: a warp shares each, or a thread block if they are long.
template <class Op>
void for_dense_rows(const Launch& launch, const Op& op, const Rows& rows) {
  constexpr std::int64_t kLong = 2048;
  if (rows.count == 0) return;
  if (rows.size <= kLong) {
    start_rows<32>(launch, op, rows);
  } else {
    start_rows<kThreads>(launch, op, rows);
  }
}

// Rows of strided elements are adjacent to each other: each thread takes one.
template <class Op>
void for_strided_rows(const Launch& launch, const Op& op, const Rows& rows) {
  if (rows.count != 0) start_rows<1>(launch, op, rows);
}

template <class Op>
void for_rows(const Launch& launch, const Op& op, const Rows& rows) {
  if (rows.inner > 1) {
    for_strided_rows(launch, op, rows);
  } else {
    for_dense_rows(launch, op, rows);
  }
}

}  // namespace mezzo::kernels::cuda
