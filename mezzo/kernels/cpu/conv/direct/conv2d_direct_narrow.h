// Convolutions of few channels in bf16 on the tile unit (AMX).
#pragma once

#include "mezzo/kernels/kernel.h"

namespace mezzo::kernels::conv {

// Compute f32 sums, rounded once. The bits do not depend on the number of threads.
void run_direct_narrow(const KernelArgs& args);
void run_direct_narrow_grad_input(const KernelArgs& args);

}  // namespace mezzo::kernels::conv
