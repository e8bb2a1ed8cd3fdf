// Packs convolution weights for oneDNN's kernels. oneDNN's own reorders of them move only 10 to 17
// GB/s, and are needed once per weight, pass and update.
#pragma once

#include <cstdint>

#include "mezzo/kernels/cpu/onednn/blocked_weight.h"

namespace mezzo::kernels::onednn {

// The n's, and the k's or pairs of k's, that are packed together: the lanes of a vector.
std::int64_t weight_tile();

void pack_weight(const BlockedWeight& weight, const float* from, void* to);

// The inverse, for f32 weight gradients whose k's are contiguous.
bool can_unpack(const BlockedWeight& weight);
void unpack_weight(const BlockedWeight& weight, const void* from, float* to);

}  // namespace mezzo::kernels::onednn
