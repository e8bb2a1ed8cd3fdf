// Adds zero channels to 16-bit images.
#pragma once

#include <cstdint>

#include "mezzo/kernels/cuda/element.cuh"
#include "mezzo/kernels/cuda/launch.cuh"

namespace mezzo::kernels::cuda {

inline constexpr int kChannelPack = 8;  // 16-bit channels that are written at once

// out[pixel] = in[pixel] followed by zeros, in packs of 8 channels.
__global__ inline void pad_channels_kernel(std::int64_t packs, std::int64_t packs_per_pixel,
                                           std::int64_t channels, const std::uint16_t* in,
                                           std::uint16_t* out) {
  for (std::int64_t i = grid_first(); i < packs; i += grid_step()) {
    const std::int64_t first = i % packs_per_pixel * kChannelPack;
    const std::uint16_t* from = in + i / packs_per_pixel * channels + first;
    Pack<std::uint16_t, kChannelPack> pack;
#pragma unroll
    for (int c = 0; c < kChannelPack; ++c) {
      pack.values[c] = first + c < channels ? from[c] : std::uint16_t{0};
    }
    reinterpret_cast<Pack<std::uint16_t, kChannelPack>*>(out)[i] = pack;
  }
}

// A copy of x [n, c, h, w], 16 bits and channels-last, padded with zeros to `channels` >= c
// channels, a multiple of 8.
inline Tensor with_channels(const Launch& launch, const Tensor& x, std::int64_t channels) {
  const Tensor padded = empty({x.size(0), channels, x.size(2), x.size(3)}, x.dtype(),
                              Format::kChannelsLast, x.device());
  const std::int64_t packs = padded.numel() / kChannelPack;
  pad_channels_kernel<<<launch.blocks_for(packs), kThreads, 0, launch.stream()>>>(
      packs, channels / kChannelPack, x.size(1), in<std::uint16_t>(x), out<std::uint16_t>(padded));
  check_launch("pad_channels_kernel");
  return padded;
}

}  // namespace mezzo::kernels::cuda
