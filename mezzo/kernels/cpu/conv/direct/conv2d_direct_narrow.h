// Convolutions of few channels in bf16 on the tile unit (AMX).
#pragma once

#include "mezzo/kernels/kernel.h"

namespace mezzo::kernels::conv {

// Yes for bf16 kernels of several columns at stride 1, without groups or dilation, for at most 15
// channels of what is read (16 of a gradient) and 64 of the result, where it is faster.
Support supports_direct_narrow(const KernelArgs& args);
Support supports_direct_narrow_grad_input(const KernelArgs& args);

// f32 sums, rounded once. Any number of threads gives the same bits.
void run_direct_narrow(const KernelArgs& args);
void run_direct_narrow_grad_input(const KernelArgs& args);

}  // namespace mezzo::kernels::conv
