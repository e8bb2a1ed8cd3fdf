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

// Random numbers in (0, 1) of 16 bits.
__host__ __device__ inline float random_unit(std::uint32_t random) {
  return static_cast<float>(random) * 0x1p-16F + 0x1p-17F;  // exact
}

// Stochastic rounding of a finite number of at most 448 to e4m3, which cuts off 20 bits, and below
// 2^-6 all that lies below 2^-9: see ops/update/narrow_state.h.
__host__ __device__ inline float dither_e4m3(float v, std::uint32_t random) {
  const float magnitude = fminf(fabsf(v), 448);
  if (magnitude >= 0x1p-6F) {
    const std::uint32_t sum = bits_of(magnitude) + (random << 4 | 8);
    return copysignf(std::bit_cast<float>(sum & 0xfff00000U), v);
  }
  const float units = magnitude * 512;
  const float down = floorf(units);
  const float up = random_unit(random) < units - down ? 1.0F : 0.0F;
  return copysignf((down + up) * 0x1p-9F, v);
}

// The root of a mean of squares, 0 to 448, moved to one of its two neighbours in e4m3 with the
// probability that makes the mean of its square exact; one that is not zero does not become zero.
__host__ __device__ inline float dither_root(float root, std::uint32_t random, bool is_not_zero) {
  const float v = fminf(root, 448);
  float low = std::bit_cast<float>(bits_of(v) & 0xfff00000U);
  float high = std::bit_cast<float>((bits_of(v) & 0xfff00000U) + 0x00100000U);
  if (v < 0x1p-6F) {
    low = floorf(v * 512) * 0x1p-9F;
    high = low + 0x1p-9F;
  }
  const float between = (high - low) * (high + low);
  const float above = (v - low) * (v + low);
  const float rounded = random_unit(random) * between < above ? high : low;
  return is_not_zero && rounded < 0x1p-9F ? 0x1p-9F : rounded;
}

// The remainder that rounding to T cuts off; 0 if the sum is not finite, or its rounded value is
// not.
template <class T>
__host__ __device__ inline float cut_off(float sum) {
  const float cut = sum - widen(narrow<T>(sum));
  return (bits_of(cut) & 0x7f800000U) == 0x7f800000U ? 0.0F : cut;
}

}  // namespace mezzo::kernels::cuda
