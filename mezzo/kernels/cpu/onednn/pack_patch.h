// Packing the weights of convolutions a patch at a time, by updates that have its numbers at hand.
#pragma once

#include "mezzo/kernels/cpu/onednn/blocked_weight.h"
#include "mezzo/ops/update/packed_copy.h"

namespace mezzo::kernels::onednn {

// The patches in which a dense f32 weight is packed: some numbers of a tap, or all taps of some
// numbers, as they lie side by side. Without rows if it is laid out in another way.
PatchGrid grid_of(const BlockedWeight& weight);

// Packs a patch of that grid on this thread. What is written goes past the caches: it is meant to
// be read much later.
void pack_patch(const BlockedWeight& weight, const PatchGrid& grid, const Patch& patch, void* to);

}  // namespace mezzo::kernels::onednn
