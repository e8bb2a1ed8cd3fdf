// What batch normalization and its gradient share: how images in channels-last memory are divided
// among blocks, and what becomes of one value.
//
// Memory is a matrix of pixels and channels. A thread has some neighbouring channels, 16 bytes of
// them where they divide evenly, keeps their numbers in registers, and goes down the pixels.
#pragma once

#include <numeric>

#include "mezzo/kernels/cuda/element.cuh"
#include "mezzo/kernels/cuda/launch.cuh"

namespace mezzo::kernels::cuda {

struct ChannelGrid {
  std::int64_t pixels = 0;
  std::int64_t channels = 0;
  int across = 1;  // threads side by side in a block; a power of two
  std::int64_t parts = 1;
  std::int64_t per_part = 1;  // pixels
  int columns = 1;            // blocks side by side

  dim3 grid() const { return {static_cast<unsigned>(columns), static_cast<unsigned>(parts)}; }
  dim3 block() const {
    return {static_cast<unsigned>(across), static_cast<unsigned>(kThreads / across)};
  }
};

// For threads that have `pack` channels each.
inline ChannelGrid channel_grid(const Launch& launch, const Shape& x, int pack) {
  constexpr std::int64_t kLeastPixels = 8;  // that a thread goes down
  ChannelGrid g;
  g.channels = x[1];
  g.pixels = x.numel() / std::max<std::int64_t>(x[1], 1);
  const std::int64_t packs = (g.channels + pack - 1) / pack;
  while (g.across < 32 && g.across < packs) g.across *= 2;
  g.columns = static_cast<int>((packs + g.across - 1) / g.across);
  const std::int64_t down = kThreads / g.across;
  const std::int64_t wanted = 8 * launch.context().multiprocessors() / g.columns;
  const std::int64_t possible = g.pixels / (down * kLeastPixels);
  g.parts = std::clamp<std::int64_t>(std::min(wanted, possible), 1, 4096);
  g.per_part = (g.pixels + g.parts - 1) / g.parts;
  return g;
}

// How many neighbouring channels a thread may have: all pointers' rows must begin aligned.
template <class T>
bool takes_packs(const Shape& x, std::initializer_list<const void*> pointers) {
  bool aligned = x[1] % kPackOf<T> == 0;
  for (const void* p : pointers) aligned = aligned && reinterpret_cast<std::uintptr_t>(p) % 16 == 0;
  return aligned;
}

// A thread's channels and pixels.
struct ChannelRange {
  std::int64_t channel, first, last, step;
  __device__ ChannelRange(const ChannelGrid& g, int pack)
      : channel((static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * pack),
        first(blockIdx.y * g.per_part + threadIdx.y),
        last(blockIdx.y * g.per_part + g.per_part < g.pixels ? blockIdx.y * g.per_part + g.per_part
                                                             : g.pixels),
        step(blockDim.y) {}
};

// Numbers of each channel: what is given, or is given in its stead where it is absent.
struct ChannelInputs {
  const float* mean;
  const float* var;
  const float* weight;  // null: 1
  const float* bias;    // null: 0
  float eps;
};

struct ChannelNumbers {
  float mean, rstd, scale, bias;
  // One value normalised. Written out, because the gradient computes it again to find the signs
  // that the forward pass saw: both must round alike.
  __device__ float normalized(float x) const { return fmaf(x - mean, scale, bias); }
};

// All numbers are asked for before the first is used: a root or a quotient has a slow branch, past
// which the compiler moves no load, and the channels would wait for memory one after the other.
template <int N>
__device__ inline void read_numbers(ChannelNumbers (&numbers)[N], const ChannelInputs& in,
                                    std::int64_t channel) {
  float var[N];
#pragma unroll
  for (int k = 0; k < N; ++k) {
    numbers[k].mean = in.mean[channel + k];
    var[k] = in.var[channel + k];
    numbers[k].scale = in.weight != nullptr ? in.weight[channel + k] : 1.0F;
    numbers[k].bias = in.bias != nullptr ? in.bias[channel + k] : 0.0F;
  }
#pragma unroll
  for (int k = 0; k < N; ++k) {
    numbers[k].rstd = 1.0F / sqrtf(var[k] + in.eps);
    numbers[k].scale *= numbers[k].rstd;
  }
}

// Adds up what the threads of a column of the block have, in a fixed order, N values each side by
// side: the barriers between the levels take as long for one as for all. For all threads of a
// block; the sums are those of the first row's threads, who alone may use them.
template <int N, class T, class Add>
__device__ void add_up_columns(T (&values)[N], T (&shared)[N][kThreads], Add add) {
  const int here = threadIdx.y * blockDim.x + threadIdx.x;
#pragma unroll
  for (int k = 0; k < N; ++k) shared[k][here] = values[k];
  __syncthreads();
  for (int half = blockDim.y / 2; half > 0; half /= 2) {
    if (threadIdx.y < half) {
#pragma unroll
      for (int k = 0; k < N; ++k) add(shared[k][here], shared[k][here + half * blockDim.x]);
    }
    __syncthreads();
  }
#pragma unroll
  for (int k = 0; k < N; ++k) values[k] = shared[k][here];
}

// Kernels that add up each channel's parts, of which there can be a thousand, have blocks of some
// channels side by side with many threads down their parts: with one thread for a channel it would
// wait for memory a thousand times in a row, longer than the pass over the images takes.
inline constexpr int kCombineAcross = 4;
inline dim3 combine_block() { return {kCombineAcross, kThreads / kCombineAcross}; }
inline unsigned combine_blocks(std::int64_t channels) {
  return static_cast<unsigned>((channels + kCombineAcross - 1) / kCombineAcross);
}

// The sum of the parts of channel c, in a fixed order, for the threads of a block's first row.
template <class T, class Add>
__device__ T sum_of_parts(const ChannelGrid& g, const T* partial, std::int64_t c,
                          T (&shared)[1][kThreads], Add add) {
  T value[1]{};
  for (std::int64_t part = threadIdx.y; c < g.channels && part < g.parts; part += blockDim.y) {
    add(value[0], partial[part * g.channels + c]);
  }
  add_up_columns(value, shared, add);
  return value[0];
}

}  // namespace mezzo::kernels::cuda
