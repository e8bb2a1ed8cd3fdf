// Convolutions of few channels in bf16 on the tile unit (AMX).
#pragma once

#include "mezzo/kernels/kernel.h"

namespace mezzo::kernels::conv {

// Yes for bf16 kernels of several columns at stride 1, without groups or dilation, where this is
// faster: for at most 15 channels of the operand read (16 for a gradient) and 64 of the result.
Support supports_direct_narrow(const KernelArgs& args);
Support supports_direct_narrow_grad_input(const KernelArgs& args);

// Compute f32 sums, rounded once. The bits do not depend on the number of threads.
void run_direct_narrow(const KernelArgs& args);
void run_direct_narrow_grad_input(const KernelArgs& args);

}  // namespace mezzo::kernels::conv
