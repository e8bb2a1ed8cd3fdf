// Packing the weights of convolutions for oneDNN's kernels. Its own reorders of them move 10 to 17
// GB/s; they come once per weight, pass and update.
#pragma once

#include <cstdint>

#include "mezzo/kernels/cpu/blocked_weight.h"
#include "mezzo/ops/packed_copy.h"

namespace mezzo::kernels::onednn {

// How many n's are packed together, and k's, or pairs of k's: the lanes of a vector.
std::int64_t weight_tile();

void pack_weight(const BlockedWeight& weight, const float* from, void* to);

// Rows of the f32 weight: what lies between one and the next along the axis, n's or k's, whose
// numbers lie further apart.
struct WeightRows {
  std::int64_t count = 0;     // 0 unless they lie one after the other
  std::int64_t elements = 0;  // of one
  std::int64_t together = 1;  // how many are packed at a time, a power of two that divides count
};
WeightRows rows_of(const BlockedWeight& weight);
// Packs rows [begin, end), whole groups of `together`, or that share of them, on this thread. What
// is written goes past the caches: it is meant to be read much later.
void pack_rows(const BlockedWeight& weight, const float* from, void* to, std::int64_t begin,
               std::int64_t end, WorkShare share = {});

// The reverse, for gradients of f32 weights whose k's lie side by side.
bool can_unpack(const BlockedWeight& weight);
void unpack_weight(const BlockedWeight& weight, const void* from, float* to);

}  // namespace mezzo::kernels::onednn
