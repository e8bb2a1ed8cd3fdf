// Gradients by images of few channels, as sums of rows (row_sums.h).
#pragma once

#include <cstdint>

#include "mezzo/kernels/cpu/conv/problem.h"
#include "mezzo/kernels/kernel.h"

namespace mezzo::kernels::conv {

// Yes without groups or dilation for kernels of several columns, where vectors of neighbouring
// pixels are fuller than vectors of channels. Not for bf16 on the tile unit.
Support supports_row_sums(const KernelArgs& args);

// f32 sums, rounded once; products of bf16 by dot products where those are fast. Every row of an
// image is added up by itself, in a fixed order: any number of threads gives the same bits.
void run_row_sums(const KernelArgs& args);

// What a pixel of the result takes, in vector instructions.
std::int64_t row_sums_instructions(const Problem& problem);

}  // namespace mezzo::kernels::conv
