// How updates are rounded to 16-bit parameters; see ops/update/param_update.h. Also compiled for
// the host, for tests.
#pragma once

#include <bit>
#include <cmath>

#include "mezzo/kernels/cuda/element.cuh"

namespace mezzo::kernels::cuda {

__host__ __device__ inline std::uint32_t bits_of(float value) {
  return std::bit_cast<std::uint32_t>(value);
}

// Stochastic rounding: moves v to one of its two neighbours in bf16, away from zero with the
// probability that makes the mean v. The 16 bits of `random` are added to the 16 bits that are cut
// off. Infinities and NaN stay.
__host__ __device__ inline float dither(float v, std::uint32_t random, BFloat16 /*to*/) {
  if ((bits_of(v) & 0x7f800000U) == 0x7f800000U) return v;
  return std::bit_cast<float>((bits_of(v) + random) & 0xffff0000U);
}

// Stochastic rounding to f16. It cuts off 13 bits, and below 2^-14 all that lies below 2^-24; there
// the probability is rounded up to a multiple of 2^-16.
__host__ __device__ inline float dither(float v, std::uint32_t random, Float16 /*to*/) {
  if ((bits_of(v) & 0x7f800000U) == 0x7f800000U) return v;
  if (fabsf(v) >= 0x1p-14F) {
    return std::bit_cast<float>((bits_of(v) + (random >> 3)) & 0xffffe000U);
  }
  const float units = fabsf(v) * 0x1p24F;
  const float down = floorf(units);
  const float up = static_cast<float>(random) * 0x1p-16F < units - down ? 1.0F : 0.0F;
  return copysignf((down + up) * 0x1p-24F, v);
}

// The remainder that rounding to T cuts off; 0 if the sum is not finite, or its rounded value is
// not.
template <class T>
__host__ __device__ inline float cut_off(float sum) {
  const float cut = sum - widen(narrow<T>(sum));
  return (bits_of(cut) & 0x7f800000U) == 0x7f800000U ? 0.0F : cut;
}

}  // namespace mezzo::kernels::cuda
