// Elements as f32, one at a time and in packs of 16 bytes.
//
// Kernels store f32, bf16 or f16 and compute in f32: loads widen exactly, and stores round once, to
// nearest, ties to even. Arithmetic in 16 bits would round after every operation, and could leave
// f16's range in the middle of a formula whose result fits.
//
// Casts also store e4m3 and e5m2. These are converted by the integer arithmetic of core/float8.h on
// every GPU: the instructions for it came with compute capability 8.9, saturate always, and make
// one NaN of all, without its sign.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "mezzo/core/dtype.h"

namespace mezzo::kernels::cuda {

// The value as f32; f64 and integers are rounded as the language does.
template <class T>
__host__ __device__ inline float widen(T value) {
#ifdef __CUDA_ARCH__
  if constexpr (std::is_same_v<T, Float16>) {
    return __half2float(__ushort_as_half(value.bits));
  } else {
    return static_cast<float>(value);
  }
#else
  return static_cast<float>(value);
#endif
}

// The nearest T, by the rules of core/half.h and core/float8.h, except for a NaN's payload in 16
// bits, which GPUs do not keep.
template <class T>
__host__ __device__ inline T narrow(float value) {
#ifdef __CUDA_ARCH__
  if constexpr (std::is_same_v<T, Float16>) {
    return Float16::from_bits(__half_as_ushort(__float2half_rn(value)));
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    // The multiplication flushes f32's subnormals to zero, as on every CPU, and does nothing else.
    float flushed;
    asm("mul.ftz.f32 %0, %1, 0f3F800000;" : "=f"(flushed) : "f"(value));
    return BFloat16::from_bits(__bfloat16_as_ushort(__float2bfloat16_rn(flushed)));
  } else {
    return static_cast<T>(value);
  }
#else
  return static_cast<T>(value);
#endif
}

// N adjacent elements that are read and written at once.
template <class T, int N>
struct alignas(sizeof(T) * N) Pack {
  T values[N];
};

// Elements of a pack of 16 bytes, the widest that a thread reads at once.
template <class T>
inline constexpr int kPackOf = static_cast<int>(16 / sizeof(T));

template <int N, class T>
__device__ inline void load(const T* from, float (&to)[N]) {
  const Pack<T, N> pack = *reinterpret_cast<const Pack<T, N>*>(from);
#pragma unroll
  for (int i = 0; i < N; ++i) to[i] = widen(pack.values[i]);
}

template <int N, class T>
__device__ inline void store(const float (&from)[N], T* to) {
  Pack<T, N> pack;
#pragma unroll
  for (int i = 0; i < N; ++i) pack.values[i] = narrow<T>(from[i]);
  *reinterpret_cast<Pack<T, N>*>(to) = pack;
}

// Reads N elements without conversion, to be widened later.
template <int N, class T>
__device__ inline Pack<T, N> read_stored(const T* from) {
  return *reinterpret_cast<const Pack<T, N>*>(from);
}

// True if packs of N elements may be read at p.
template <int N, class T>
__host__ __device__ inline bool is_aligned(const T* p) {
  return reinterpret_cast<std::uintptr_t>(p) % (sizeof(T) * N) == 0;
}

// Calls use.operator()<N>(). N is the size of a pack if rows of `row` elements are whole packs in
// all of this memory, otherwise 1.
template <class T, std::size_t kAlignment = 16, class Use>
inline void visit_packs(std::int64_t row, std::initializer_list<const void*> memory,
                        const Use& use) {
  bool fits = row % kPackOf<T> == 0;
  for (const void* p : memory) fits = fits && reinterpret_cast<std::uintptr_t>(p) % kAlignment == 0;
  if (fits) {
    use.template operator()<kPackOf<T>>();
  } else {
    use.template operator()<1>();
  }
}

}  // namespace mezzo::kernels::cuda
