// Convolutions of bf16 that oneDNN 2.6.3 computes wrongly, by tiles (AMX) or dot products
// (AVX512-BF16): seen in random calls on memory full of infinities (docs/cpu_kernels.md).
#pragma once

#include "mezzo/kernels/cpu/conv/problem.h"

namespace mezzo::kernels::conv {

// No where its numbers are wrong, or where it reads or writes memory that is not its own.
Support is_trusted(const Problem& problem);

// True of forward passes whose rows are wrong where a thread's share of the work begins within an
// image. An image at a time is right.
bool needs_whole_images(const Problem& problem);

}  // namespace mezzo::kernels::conv
