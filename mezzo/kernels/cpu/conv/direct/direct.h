// Convolutions on the tile unit.
#pragma once

#include <cstdint>

#include "mezzo/core/half.h"
#include "mezzo/kernels/cpu/conv/direct/direct_plan.h"

namespace mezzo::kernels::direct {

// x and y are channels-last; the weight lies in tiles [outer / 16][inner / 32][taps], each of 16
// pairs of input channels by 16 outputs.
struct Call {
  const BFloat16* x = nullptr;
  const char* weight = nullptr;
  const float* bias = nullptr;  // of the outputs, or none
  BFloat16* y = nullptr;
};

// Computes parts [begin, end) of bands() * shares() on this thread: f32 sums, in the order of the
// channels' panels, their blocks and the taps, then the bias, rounded once.
void convolve(const Plan& plan, const Call& call, std::int64_t begin, std::int64_t end);

}  // namespace mezzo::kernels::direct
