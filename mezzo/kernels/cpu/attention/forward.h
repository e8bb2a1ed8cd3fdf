// Attention tile by tile: scores of a tile exist only while it is worked on.
//
//            keys ->
//          +----+----+----+
//  queries | 1  |    |    |   A thread takes a row of tiles and goes through it once. It keeps the
//          +----+----+----+   maximum and the sum of each query so far, and its result so far,
//          | 2  | 3  |    |   which is rescaled when the maximum grows (Dao 2023).
//          +----+----+----+
//          | 4  | 5  | 6  |   Causal attention skips the tiles above the diagonal.
//          +----+----+----+
#pragma once

#include "mezzo/kernels/cpu/attention/product_tiles.h"
#include "mezzo/kernels/kernel.h"

namespace mezzo::kernels::attention {

// Computes `attention` in f32 sums. Bits do not depend on the number of threads.
void run_forward(const KernelArgs& args);
// The same for bf16 with the CPU's dot product: probabilities are rounded to bf16 for their product
// with v. Needs has_bf16_dot().
void run_forward_dots(const KernelArgs& args);
// The same on the tile unit, with the same roundings; needs has_tiles().
void run_forward_tiles(const KernelArgs& args);
// The same on another unit, which stands in for it in tests. Without AVX-512 it is run_forward().
void run_forward_on(const TileUnit& unit, const KernelArgs& args);

}  // namespace mezzo::kernels::attention
