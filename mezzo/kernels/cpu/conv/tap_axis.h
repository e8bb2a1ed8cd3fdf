// The input pixels that the taps of a convolution's kernel read, along one axis.
#pragma once

#include <cstdint>
#include <vector>

namespace mezzo::kernels::grad_weight {

// A tap reads input index stride * (output index + first_shift + shift) + remainder. Among the
// inputs of one remainder, every tap therefore reads contiguously.
struct TapAxis {
  struct Tap {
    std::int64_t remainder = 0;  // index into `remainders`
    std::int64_t shift = 0;      // in [0, halo]
  };

  TapAxis(std::int64_t count, std::int64_t stride, std::int64_t dilation, std::int64_t padding);

  std::vector<Tap> taps;
  std::vector<std::int64_t> remainders;  // those that occur, in the order of the taps
  std::int64_t first_shift = 0;
  std::int64_t halo = 0;
};

}  // namespace mezzo::kernels::grad_weight
