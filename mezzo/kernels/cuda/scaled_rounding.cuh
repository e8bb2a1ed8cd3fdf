// Rounding to eight bits, a piece of a few elements at a time: their largest absolute value, and
// the codes of their products with a factor, with the bits of the CPU's.
//
// Largest values are kept as integers: the patterns of absolute values, which are ordered like the
// values, with NaN above infinity. So an atomic maximum of them is the same in any order.
#pragma once

#include "mezzo/kernels/cuda/element.cuh"
#include "mezzo/ops/scale_factor.h"

namespace mezzo::kernels::cuda {

// Elements that a thread reads at a time: 16 or 32 bytes, which become 8.
inline constexpr int kPiece = 8;

struct LargerPattern {
  __device__ unsigned operator()(unsigned a, unsigned b) const { return a > b ? a : b; }
};

__device__ inline unsigned pattern_of(float x) { return __float_as_uint(x) & 0x7fffffffU; }

// The largest pattern of a piece.
template <int N>
__device__ inline unsigned largest_pattern(const float (&values)[N]) {
  unsigned largest = 0;
#pragma unroll
  for (int k = 0; k < N; ++k) largest = LargerPattern()(largest, pattern_of(values[k]));
  return largest;
}

// The same for each place of a piece.
template <int N>
__device__ inline void raise_each(const float (&values)[N], unsigned (&largest)[N]) {
#pragma unroll
  for (int k = 0; k < N; ++k) largest[k] = LargerPattern()(largest[k], pattern_of(values[k]));
}

template <class Out>
constexpr float largest_number() {
  return static_cast<float>(Out::from_bits(Out::Format::kLargest));
}

// The factor of a group that shares an f32 scale.
template <class Out>
__device__ inline float factor_for(unsigned largest) {
  return scale_for(std::bit_cast<float>(largest), largest_number<Out>(), 1);
}

// A number times the factor, rounded in f32 and then to eight bits. nvcc must not join the product
// with the addition that rounds small numbers (core/float8.h): that would leave out the rounding to
// f32, and some codes would differ from the CPU's. A NaN is not multiplied: a GPU's product of it
// would lose its sign.
template <class Out>
__device__ inline Out rounded(float x, float factor) {
  return Out::saturated(isnan(x) ? x : __fmul_rn(x, factor));
}

// The elements of a piece that exist, widened; zeros in the place of those from `count` on.
template <int N, class In>
__device__ inline void read_piece(const In* x, std::int64_t count, float (&to)[N]) {
  if (count >= N) return load(x, to);
#pragma unroll
  for (int k = 0; k < N; ++k) to[k] = k < count ? widen(x[k]) : 0.0F;
}

// Rounds a piece, each element with its factor, and writes the elements before `count`.
template <int N, class Out>
__device__ inline void write_piece(const float (&values)[N], const float (&factors)[N],
                                   std::int64_t count, Out* to) {
  Pack<Out, N> pack;
#pragma unroll
  for (int k = 0; k < N; ++k) pack.values[k] = rounded<Out>(values[k], factors[k]);
  if (count >= N) {
    *reinterpret_cast<Pack<Out, N>*>(to) = pack;
    return;
  }
  for (int k = 0; k < N && k < count; ++k) to[k] = pack.values[k];
}

// The same with one factor.
template <int N, class Out>
__device__ inline void write_piece(const float (&values)[N], float factor, std::int64_t count,
                                   Out* to) {
  float factors[N];
#pragma unroll
  for (int k = 0; k < N; ++k) factors[k] = factor;
  write_piece(values, factors, count, to);
}

}  // namespace mezzo::kernels::cuda
