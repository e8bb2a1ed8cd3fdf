// The gradient of attention, tile by tile. Probabilities are made again from log-sum-exp.
//
// A tile of scores gives one term of each gradient: dV += P^T dO, dK += dS^T Q, dQ += dS K, where
// dS = P * (dO V^T - rowsum(dO * O)). Sums are added in the order of tiles, whatever thread adds
// them: where there are enough heads, a thread computes all gradients of a head; otherwise rows and
// columns of tiles are divided among threads, which takes two of the five products twice.
#pragma once

#include "mezzo/kernels/cpu/attention/product_tiles.h"
#include "mezzo/kernels/kernel.h"

namespace mezzo::kernels::attention {

// Computes `attention_grad` in f32 sums. Bits do not depend on the number of threads.
void run_grad(const KernelArgs& args);
// The same for bf16 with the CPU's dot product: probabilities and gradients of scores are rounded
// to bf16 for their products. Needs has_bf16_dot().
void run_grad_dots(const KernelArgs& args);
// The same on the tile unit, with the same roundings; needs has_tiles().
void run_grad_tiles(const KernelArgs& args);
// The same on another unit, which stands in for it in tests. Without AVX-512 it is run_grad().
void run_grad_on(const TileUnit& unit, const KernelArgs& args);

}  // namespace mezzo::kernels::attention
