// Packs convolution weights a patch at a time, for updates that have the values in the cache.
#pragma once

#include "mezzo/kernels/cpu/onednn/blocked_weight.h"
#include "mezzo/ops/update/packed_copy.h"

namespace mezzo::kernels::onednn {

// The patches in which a dense f32 weight is packed: some values of one tap, or all taps of some
// values, whichever are contiguous. The grid has no rows if the weight is laid out differently.
PatchGrid grid_of(const BlockedWeight& weight);

// Packs a patch of that grid on the calling thread. The writes go past the caches, since the copy
// is read much later.
void pack_patch(const BlockedWeight& weight, const PatchGrid& grid, const Patch& patch, void* to);

}  // namespace mezzo::kernels::onednn
