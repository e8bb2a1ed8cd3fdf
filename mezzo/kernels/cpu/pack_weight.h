// Packing the weights of convolutions for oneDNN's kernels. Its own reorders of them move 10 to 17
// GB/s; they come once per weight, pass and update.
#pragma once

#include <cstdint>
#include <optional>

#include "mezzo/kernels/cpu/onednn.h"
#include "mezzo/ops/packed_copy.h"

namespace mezzo::kernels::onednn {

// A weight in blocks, seen as numbers [n][k][h][w]: one of the axes 0 and 1 is n, the other k. The
// numbers of `n_block` n's lie side by side, or pairs of them and the next k's where `pair` is 2;
// `k_block` k's make a block.
struct BlockedWeight {
  std::int64_t n = 0, k = 0, h = 0, w = 0;
  std::int64_t padded_n = 0;  // zeros from n on
  std::int64_t n_block = 1, k_block = 1, pair = 1;
  // From one n, k, row and column to the next in the f32 weight.
  std::int64_t from_n = 0, from_k = 0, from_h = 0, from_w = 0;
  // From one block of n's and of k's, row and column to the next, in 32-bit elements.
  std::int64_t to_n = 0, to_k = 0, to_h = 0, to_w = 0;
};

// How to pack f32 numbers of `dims` and `strides` in the layout `wanted`, f32 or bf16, rounded to
// nearest even as a cast rounds. Nothing if that is another kind of layout, if the sizes are not
// whole vectors, or if the kernel `cpu_pack` is disabled: reorder() does the rest.
std::optional<BlockedWeight> blocked_weight(const Shape& dims, const Shape& strides,
                                            const Desc& wanted);

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
