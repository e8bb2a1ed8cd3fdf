// Convolutions on the tile unit.
#pragma once

#include <cstdint>

#include "mezzo/core/half.h"
#include "mezzo/kernels/cpu/taps_plan.h"

namespace mezzo::kernels::taps {

// Computes parts [begin, end) of bands() * shares() on this thread: f32 sums, in the order of the
// channels' panels, their blocks and the taps, rounded once. x and y are channels-last; the weight
// lies in tiles [outer / 16][inner / 32][taps], each of 16 pairs of input channels by 16 outputs.
void convolve(const Plan& plan, const BFloat16* x, const char* weight, BFloat16* y,
              std::int64_t begin, std::int64_t end);

}  // namespace mezzo::kernels::taps
