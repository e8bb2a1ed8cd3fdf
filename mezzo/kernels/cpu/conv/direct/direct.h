// The computation of a convolution on the tile unit, as direct_plan.h divides it.
#pragma once

#include <cstdint>

#include "mezzo/core/half.h"
#include "mezzo/kernels/cpu/conv/direct/direct_plan.h"

namespace mezzo::kernels::direct {

// x and y are channels-last. The weight lies in tiles [outer / 16][inner / 32][taps], each of 16
// pairs of input channels by 16 outputs.
struct Call {
  const BFloat16* x = nullptr;
  const char* weight = nullptr;
  const float* bias = nullptr;  // of the outputs; null: no bias
  BFloat16* y = nullptr;
};

// Computes parts [begin, end) of bands() * shares() on the calling thread. f32 sums run over the
// channels' panels, their blocks, then the taps; the bias is added, and they are rounded once.
void convolve(const Plan& plan, const Call& call, std::int64_t begin, std::int64_t end);

}  // namespace mezzo::kernels::direct
