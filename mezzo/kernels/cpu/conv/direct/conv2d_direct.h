// Convolutions with kernels of several taps, in bf16 on the tile unit (AMX).
#pragma once

#include "mezzo/kernels/kernel.h"

namespace mezzo::kernels::conv {

// Compute f32 sums with the bias, rounded once. The bits do not depend on the number of threads.
void run_direct(const KernelArgs& args);
void run_direct_grad_input(const KernelArgs& args);
void run_direct_transposed(const KernelArgs& args);

}  // namespace mezzo::kernels::conv
