// The arguments of the kernel for few output channels, for all instruction sets.
#pragma once

#include <cstdint>

#include "mezzo/core/tensor.h"
#include "mezzo/kernels/cpu/conv/planar/planar_plan.h"
#include "mezzo/kernels/cpu/conv/planar/planar_problem.h"

namespace mezzo::kernels::planar {

// Eight lines of x of this many pixels stay in the first-level cache beside the sums.
inline constexpr std::int64_t kMostPixels = 512;

// A weight addressed as [output channel][input channel][row][column], whichever of the two images
// is the result.
struct Weight {
  const float* first = nullptr;
  std::int64_t out = 0, in = 0, row = 0, column = 0;  // strides in elements
};

// A call. Images are channels-last, of one dtype; `bias` is null or has a value per output channel.
struct Call {
  Problem problem;
  Tensor x, y;
  Weight weight;
  const float* bias = nullptr;
};

}  // namespace mezzo::kernels::planar
