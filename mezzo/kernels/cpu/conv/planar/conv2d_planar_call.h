// What the kernel for few channels of the result is called with, on every instruction set.
#pragma once

#include <cstdint>

#include "mezzo/core/tensor.h"
#include "mezzo/kernels/cpu/conv/planar/planar_plan.h"

namespace mezzo::kernels::planar {

// Of the result; and of x, as many as are copied at a time: fewer would be gathered number by
// number.
inline constexpr std::int64_t kMostChannels = 8;
// Eight lines of x stay in the first-level cache beside the sums.
inline constexpr std::int64_t kMostPixels = 512;

// A weight as [output channel][input channel][row][column], whichever of the two images it makes.
struct Weight {
  const float* first = nullptr;
  std::int64_t out = 0, in = 0, row = 0, column = 0;  // steps
};

// Images channels-last, of one dtype; the bias null or a number per output channel.
struct Call {
  Problem problem;
  Tensor x, y;
  Weight weight;
  const float* bias = nullptr;
};

}  // namespace mezzo::kernels::planar
