// Definitions that nvcc has built in and g++ lacks: included before every translated kernel file.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <tuple>
#include <type_traits>
#include <utility>

// NVIDIA's own types and conversions, for the host. They must be included before __CUDACC__ is
// defined below, which would make them assume nvcc.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include "tests/emulated_card/block.h"
#include "tests/emulated_card/launch.h"
#include "tests/emulated_card/tensor_core.h"

#define MEZZO_EMULATED_CARD 1

// NOLINTBEGIN: the names are CUDA's.
#define __CUDACC__ 1
#define __launch_bounds__(...)
#define threadIdx (::mezzo::emulated_card::position().thread)
#define blockIdx (::mezzo::emulated_card::position().block)
#define blockDim (::mezzo::emulated_card::position().threads)
#define gridDim (::mezzo::emulated_card::position().blocks)

inline void __syncthreads(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  mezzo::emulated_card::wait_for_block(false, {file, line});
}

inline int __syncthreads_or(int any, const char* file = __builtin_FILE(),
                            int line = __builtin_LINE()) {
  return mezzo::emulated_card::wait_for_block(any != 0, {file, line}) ? 1 : 0;
}

template <class T>
T __shfl_xor_sync(unsigned mask, T value, unsigned lanes) {
  const unsigned lane = (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32;
  T result{};
  mezzo::emulated_card::exchange_in_warp(mask, &value, sizeof(T), lane ^ lanes, &result, false);
  return result;
}

inline unsigned __ballot_sync(unsigned mask, bool vote) {
  return mezzo::emulated_card::exchange_in_warp(mask, nullptr, 0, 0, nullptr, vote);
}

inline void __syncwarp(unsigned mask = 0xffffffffU) {
  mezzo::emulated_card::exchange_in_warp(mask, nullptr, 0, 0, nullptr, false);
}

// Threads run one at a time, and none of them is interrupted within these.
template <class T>
T atomicAdd(T* to, std::type_identity_t<T> term) {
  return std::exchange(*to, *to + term);
}
template <class T>
T atomicMin(T* to, std::type_identity_t<T> other) {
  return std::exchange(*to, std::min(*to, other));
}
template <class T>
T atomicMax(T* to, std::type_identity_t<T> other) {
  return std::exchange(*to, std::max(*to, other));
}
template <class T>
T atomicCAS_system(T* to, std::type_identity_t<T> expected, std::type_identity_t<T> desired) {
  return std::exchange(*to, *to == expected ? desired : *to);
}
inline void __threadfence_system() {}

inline long long clock64() {
  static long long cycles = 0;
  return cycles += 1000;
}

inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
// The build contracts no products and sums into FMAs (-ffp-contract=off), so these round once each.
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dsub_rn(double a, double b) { return a - b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline int __ffs(int bits) { return __builtin_ffs(bits); }
using std::isfinite;
using std::isinf;
using std::isnan;
using std::max;
using std::min;
// NOLINTEND
