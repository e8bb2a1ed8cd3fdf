// Input gradients of few channels, as sums of rows (row_sums.h).
#pragma once

#include <cstdint>

#include "mezzo/kernels/kernel.h"

namespace mezzo::kernels::conv {

// Computes f32 sums, rounded once; bf16 is multiplied by dot products where those are fast. Every
// row of an image is summed by itself, in a fixed order, so the bits do not depend on the number of
// threads.
void run_row_sums(const KernelArgs& args);

}  // namespace mezzo::kernels::conv
