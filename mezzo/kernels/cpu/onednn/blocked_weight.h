// What oneDNN's blocked layouts of convolutions' weights say, in the terms of who packs them.
#pragma once

#include <cstdint>
#include <optional>

#include "mezzo/kernels/cpu/onednn/onednn.h"

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

}  // namespace mezzo::kernels::onednn
