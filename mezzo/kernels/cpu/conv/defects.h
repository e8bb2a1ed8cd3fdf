// The bf16 convolutions that oneDNN 2.6.3 computes wrongly, by tiles (AMX) or dot products
// (AVX512-BF16). They were found by random calls on memory full of infinities
// (docs/cpu_kernels.md).
#pragma once

#include "mezzo/kernels/cpu/conv/problem.h"

namespace mezzo::kernels::conv {

// No where oneDNN's results are wrong, or where it reads or writes memory outside its tensors.
Support is_trusted(const Problem& problem);

// True of forward passes whose rows are wrong where a thread's share of the work begins within an
// image. They are right if each image is computed as a whole.
bool needs_whole_images(const Problem& problem);

}  // namespace mezzo::kernels::conv
