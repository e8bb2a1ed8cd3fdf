// oneDNN's blocked layouts of convolution weights, in the terms of the packing code.
#pragma once

#include <cstdint>
#include <optional>

#include "mezzo/kernels/cpu/onednn/onednn.h"

namespace mezzo::kernels::onednn {

// A weight in blocks, seen as [n][k][h][w]: one of the axes 0 and 1 is n, the other k. `n_block`
// values of consecutive n's are contiguous; if `pair` is 2, each is a pair with the next k's value.
// A block has `k_block` k's.
struct BlockedWeight {
  std::int64_t n = 0, k = 0, h = 0, w = 0;
  std::int64_t padded_n = 0;  // zeros from n on
  std::int64_t n_block = 1, k_block = 1, pair = 1;
  // Strides in the f32 weight from one n, k, row and column to the next.
  std::int64_t from_n = 0, from_k = 0, from_h = 0, from_w = 0;
  // Strides in 32-bit elements from one block of n's and of k's, row and column to the next.
  std::int64_t to_n = 0, to_k = 0, to_h = 0, to_w = 0;
};

// How to pack f32 values of `dims` and `strides` in the layout `wanted`, f32 or bf16, rounded to
// nearest even like a cast. nullopt for other kinds of layout, for sizes that are not whole
// vectors, or if the kernel `cpu_pack` is disabled: reorder() does the rest.
std::optional<BlockedWeight> blocked_weight(const Shape& dims, const Shape& strides,
                                            const Desc& wanted);

}  // namespace mezzo::kernels::onednn
