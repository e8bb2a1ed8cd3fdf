// State of optimizers in bf16 and e4m3: read as f32, and rounded back by the rules of
// ops/update/narrow_state.h, with the bits of the CPU's kernels (kernels/cpu/optim).
#pragma once

#include "mezzo/kernels/cuda/blocks.cuh"
#include "mezzo/kernels/cuda/philox.cuh"
#include "mezzo/kernels/cuda/rounding.cuh"
#include "mezzo/ops/update/narrow_state.h"

namespace mezzo::flat::cuda {

static_assert(kThreads == kStateBlock, "a thread block has a thread for each element of a block");

__device__ inline bool is_mean_of_squares(const NarrowState& state, std::size_t slot) {
  return (state.squares >> slot & 1U) != 0;
}

// The number that element i of a slot stands for.
__device__ inline float read_state(const NarrowState& state, std::size_t slot, std::int64_t i) {
  if (state.dtype == DType::kBf16) return widen(static_cast<const BFloat16*>(state.slots[slot])[i]);
  const Float8E4M3 code = static_cast<const Float8E4M3*>(state.slots[slot])[i];
  const float value = __fmul_rn(static_cast<float>(code), state.scales[slot][i / kStateBlock]);
  return is_mean_of_squares(state, slot) ? __fmul_rn(value, value) : value;
}

// The 16 random bits of element i of a slot.
__device__ inline std::uint32_t state_bits(const UpdateBlock& b, std::size_t slot, std::int64_t i) {
  const auto first = static_cast<std::uint64_t>(b.state.words) * slot;
  std::uint32_t words[4];
  kernels::cuda::philox_block(
      b.state.random.seed, (b.state.random.offset + first) / 4 + static_cast<std::uint64_t>(i) / 8,
      words);
  const auto at = static_cast<int>(i % 8);
  std::uint32_t word = words[0];
  if (at / 2 == 1) word = words[1];
  if (at / 2 == 2) word = words[2];
  if (at / 2 == 3) word = words[3];
  return at % 2 == 0 ? word & 0xffffU : word >> 16;
}

// The largest of the numbers that the threads of a thread block have, none of which is NaN: so the
// order is free. All threads call it, and all get it.
__device__ inline float block_largest(float value) {
  __shared__ float shared[kThreads];
  __syncthreads();  // the result of an earlier call has been read
  shared[threadIdx.x] = value;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      shared[threadIdx.x] = fmaxf(shared[threadIdx.x], shared[threadIdx.x + half]);
    }
    __syncthreads();
  }
  return shared[0];
}

// The same of magnitudes, of which those that are not finite do not count.
__device__ inline float largest_of_block(float value) {
  return block_largest(isfinite(value) ? fabsf(value) : 0);
}

// Rounds a mean of squares, or another number of state, to bf16.
__device__ inline BFloat16 state_in_bf16(float value, bool is_square, std::uint32_t random) {
  const float rounded = kernels::cuda::dither(value, random, BFloat16());
  const bool is_lost = is_square && value > 0 && rounded < kLeastState;
  return narrow<BFloat16>(is_lost ? kLeastState : rounded);
}

// Rounds the value of each thread to e4m3. Threads whose element is beyond the last one have the
// value 0 and `is_there` false.
__device__ inline void write_e4m3(const UpdateBlock& b, std::size_t slot, std::int64_t i,
                                  bool is_there, float value) {
  const bool is_square = is_mean_of_squares(b.state, slot);
  const float largest = largest_of_block(value);
  const float extent = is_square ? sqrtf(largest) : largest;
  const bool is_nothing = extent < 448 * kLeastState;
  if (!is_there) return;
  const float factor = is_nothing ? 0 : 448 / extent;
  const std::uint32_t random = state_bits(b, slot, i);
  float rounded = 0;
  if (is_square) {
    rounded = kernels::cuda::dither_root(__fmul_rn(sqrtf(value), factor), random, value > 0);
  } else {
    rounded = kernels::cuda::dither_e4m3(__fmul_rn(value, factor), random);
  }
  const auto code = isfinite(value) ? Float8E4M3(rounded) : Float8E4M3::from_bits(0x7f);
  static_cast<Float8E4M3*>(b.state.slots[slot])[i] = code;
  if (threadIdx.x == 0) {
    b.state.scales[slot][i / kStateBlock] = is_nothing ? 0 : extent / 448;
  }
}

// All threads of a thread block call it, for the same slot of neighbouring elements.
__device__ inline void write_state(const UpdateBlock& b, std::size_t slot, std::int64_t i,
                                   bool is_there, float value) {
  if (b.state.dtype == DType::kE4m3) return write_e4m3(b, slot, i, is_there, value);
  if (!is_there) return;
  static_cast<BFloat16*>(b.state.slots[slot])[i] =
      state_in_bf16(value, is_mean_of_squares(b.state, slot), state_bits(b, slot, i));
}

}  // namespace mezzo::flat::cuda
