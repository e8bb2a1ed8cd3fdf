// The operands of a product of eight bits in the layouts that cuBLASLt takes.
#pragma once

#include "mezzo/kernels/cuda/launch.cuh"

namespace mezzo::kernels::cuda {

// The transpose of dense codes [rows, columns], both multiples of 4, at a multiple of 4 bytes. Ada,
// Hopper and the smaller Blackwell have products of eight bits for operands whose sums run along
// rows only.
Tensor transposed_codes(const Launch& launch, const Tensor& codes);

// Scales of blocks in the order of cuBLASLt's "1D block scaling factors layout": tiles of 128 lines
// times 4 blocks, with those of four blocks of lines i, i + 32, i + 64 and i + 96 beside each
// other. What fills up the last tiles is 0. `scales`: dense, u8 [lines, blocks], or [blocks, lines]
// if `sums_rows`.
Tensor tiled_scales(const Launch& launch, const Tensor& scales, bool sums_rows);

}  // namespace mezzo::kernels::cuda
