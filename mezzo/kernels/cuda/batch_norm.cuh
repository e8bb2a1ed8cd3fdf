// What batch normalization and its gradient share: the numbers of a channel, and what becomes of
// one value.
#pragma once

#include "mezzo/kernels/cuda/channels.cuh"
#include "mezzo/kernels/cuda/functions.cuh"

namespace mezzo::kernels::cuda {

// How a norm's images are divided among threads that have `pack` channels each.
inline ChannelGrid channel_grid(const Launch& launch, const Shape& x, int pack) {
  return channel_grid(launch, x.numel() / std::max<std::int64_t>(x[1], 1), x[1], pack);
}

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
    numbers[k].rstd = functions::rstd_of(var[k], in.eps);
    numbers[k].scale *= numbers[k].rstd;
  }
}

}  // namespace mezzo::kernels::cuda
