// Element by element functions: over dense memory in packs, over anything else by index.
#pragma once

#include <cstddef>
#include <utility>

#include "mezzo/kernels/cpu/loops/loop.h"
#include "mezzo/kernels/cuda/element.cuh"
#include "mezzo/kernels/cuda/launch.cuh"

namespace mezzo::kernels::cuda {

template <int N>
struct Floats {
  float values[N];
};

template <int N, class T>
__device__ inline Floats<N> read_pack(const T* from) {
  Floats<N> floats;
  load(from, floats.values);
  return floats;
}

template <int N, class F, class... Packs>
__device__ inline void apply_packs(const F& f, float (&result)[N], const Packs&... packs) {
#pragma unroll
  for (int k = 0; k < N; ++k) result[k] = f(packs.values[k]...);
}

// out[i] = f(in[i]...), N elements per thread and iteration; the remainder one by one. An output
// may overlap an input: an element is read before it is written, by the same thread.
template <int N, class F, class Out, class... In>
__global__ void map_kernel(F f, std::int64_t n, Out* out, const In*... in) {
  for (std::int64_t i = grid_first() * N; i < n; i += grid_step() * N) {
    if (N > 1 && i + N <= n) {
      float result[N];
      apply_packs<N>(f, result, read_pack<N>(in + i)...);
      store<N>(result, out + i);
    } else {
      for (std::int64_t k = i; k < n && k < i + N; ++k) out[k] = narrow<Out>(f(widen(in[k])...));
    }
  }
}

// Uses the widest pack that all pointers are aligned to, or single elements.
template <class F, class Out, class... In>
void map(const Launch& launch, const F& f, std::int64_t n, Out* out, const In*... in) {
  if (n == 0) return;
  constexpr int kPack = std::min({kPackOf<Out>, kPackOf<In>...});
  if (is_aligned<kPack>(out) && (is_aligned<kPack>(in) && ...)) {
    const int blocks = launch.blocks_for((n + kPack - 1) / kPack);
    map_kernel<kPack><<<blocks, kThreads, 0, launch.stream()>>>(f, n, out, in...);
  } else {
    map_kernel<1><<<launch.blocks_for(n), kThreads, 0, launch.stream()>>>(f, n, out, in...);
  }
  check_launch("map_kernel");
}

// The dimensions of a loop over N operands, outermost first, as kernel arguments.
template <int N>
struct Dims {
  int rank = 0;
  std::int64_t sizes[kMaxRank] = {};
  std::int64_t strides[N][kMaxRank] = {};

  Dims() = default;
  explicit Dims(const Loop<N>& loop) : rank(static_cast<int>(loop.rank())) {
    for (int i = 0; i < rank; ++i) {
      sizes[i] = loop.sizes[static_cast<std::size_t>(i)];
      for (int k = 0; k < N; ++k) {
        strides[k][i] = loop.strides[static_cast<std::size_t>(k)][static_cast<std::size_t>(i)];
      }
    }
  }

  // The offset in each operand of element `index` in loop order. 64-bit divisions take dozens of
  // instructions, and few tensors need them.
  template <class Index>
  __host__ __device__ void locate(Index index, std::int64_t (&offsets)[N]) const {
    for (int k = 0; k < N; ++k) offsets[k] = 0;
    for (int axis = rank - 1; axis > 0; --axis) {
      const auto size = static_cast<Index>(sizes[axis]);
      const Index rest = index / size;
      const auto at = static_cast<std::int64_t>(index - rest * size);
      for (int k = 0; k < N; ++k) offsets[k] += at * strides[k][axis];
      index = rest;
    }
    for (int k = 0; k < N; ++k) offsets[k] += static_cast<std::int64_t>(index) * strides[k][0];
  }
  __host__ __device__ void locate_any(std::int64_t index, bool is_small,
                                      std::int64_t (&offsets)[N]) const {
    if (is_small) {
      locate(static_cast<std::uint32_t>(index), offsets);
    } else {
      locate(static_cast<std::uint64_t>(index), offsets);
    }
  }
};

// IsRaw: functions with kIsRaw take and return stored elements instead of f32.
template <class F>
concept IsRaw = requires {
  F::kIsRaw;
};

template <class F, int N, class Out, std::size_t... K, class... In>
__device__ inline void apply_at(const F& f, const std::int64_t (&at)[N],
                                std::index_sequence<K...> /*operands*/, Out* out, const In*... in) {
  if constexpr (IsRaw<F>) {
    out[at[0]] = f(in[at[1 + K]]...);
  } else {
    out[at[0]] = narrow<Out>(f(widen(in[at[1 + K]])...));
  }
}

// out = f(in...) over a loop whose operand 0 is the output.
template <class F, class Out, class... In>
__global__ void strided_kernel(F f, std::int64_t n, Dims<1 + sizeof...(In)> dims, Out* out,
                               const In*... in) {
  const bool is_small = n <= 0x7fffffff;
  for (std::int64_t i = grid_first(); i < n; i += grid_step()) {
    std::int64_t at[1 + sizeof...(In)];
    dims.locate_any(i, is_small, at);
    apply_at(f, at, std::index_sequence_for<In...>(), out, in...);
  }
}

template <class F, class Out, class... In>
void map_strided(const Launch& launch, const F& f, const Loop<1 + sizeof...(In)>& loop, Out* out,
                 const In*... in) {
  const std::int64_t n = loop.numel();
  if (n == 0) return;
  const Dims<1 + sizeof...(In)> dims(loop);
  strided_kernel<<<launch.blocks_for(n), kThreads, 0, launch.stream()>>>(f, n, dims, out, in...);
  check_launch("strided_kernel");
}

}  // namespace mezzo::kernels::cuda
