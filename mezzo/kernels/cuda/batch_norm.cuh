// Shared by batch normalization and its gradient: per-channel parameters, and the arithmetic for
// one element.
#pragma once

#include "mezzo/kernels/cuda/channels.cuh"
#include "mezzo/kernels/cuda/functions.cuh"

namespace mezzo::kernels::cuda {

// How a norm's images are divided among threads that have `pack` channels each.
inline ChannelGrid channel_grid(const Launch& launch, const Shape& x, int pack) {
  return channel_grid(launch, x.numel() / std::max<std::int64_t>(x[1], 1), x[1], pack);
}

// The parameters of each channel, or defaults for those that are absent.
struct ChannelInputs {
  const float* mean;
  const float* var;
  const float* weight;  // null: 1
  const float* bias;    // null: 0
  float eps;
};

struct ChannelNumbers {
  float mean, rstd, scale, bias;
  // Normalises one value. Written as a single fmaf, because the gradient recomputes it to find the
  // signs that the forward pass saw: both must round alike.
  __device__ float normalized(float x) const { return fmaf(x - mean, scale, bias); }
};

// All parameters are loaded before the first is used. A root or a quotient has a slow branch, past
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
