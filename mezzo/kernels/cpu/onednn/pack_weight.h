// Packing the weights of convolutions for oneDNN's kernels. Its own reorders of them move 10 to 17
// GB/s; they come once per weight, pass and update.
#pragma once

#include <cstdint>

#include "mezzo/kernels/cpu/onednn/blocked_weight.h"

namespace mezzo::kernels::onednn {

// How many n's are packed together, and k's, or pairs of k's: the lanes of a vector.
std::int64_t weight_tile();

void pack_weight(const BlockedWeight& weight, const float* from, void* to);

// The reverse, for gradients of f32 weights whose k's lie side by side.
bool can_unpack(const BlockedWeight& weight);
void unpack_weight(const BlockedWeight& weight, const void* from, float* to);

}  // namespace mezzo::kernels::onednn
