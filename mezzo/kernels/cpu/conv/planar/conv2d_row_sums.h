// Input gradients of few channels, as sums of rows (row_sums.h).
#pragma once

#include <cstdint>

#include "mezzo/kernels/cpu/conv/problem.h"
#include "mezzo/kernels/kernel.h"

namespace mezzo::kernels::conv {

// Yes without groups or dilation for kernels of several columns, where vectors of adjacent pixels
// are fuller than vectors of channels. Not for bf16 on the tile unit.
Support supports_row_sums(const KernelArgs& args);

// Computes f32 sums, rounded once; bf16 is multiplied by dot products where those are fast. Every
// row of an image is summed by itself, in a fixed order, so the bits do not depend on the number of
// threads.
void run_row_sums(const KernelArgs& args);

// The vector instructions for a pixel of the result.
std::int64_t row_sums_instructions(const Problem& problem);

}  // namespace mezzo::kernels::conv
