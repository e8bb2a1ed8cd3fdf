// Convolutions with 3x3 kernels at stride 1, and their gradients, by Winograd's method: 36 products
// for 16 results of a kernel instead of 144 (winograd_plan.h).
#pragma once

#include "mezzo/kernels/kernel.h"

namespace mezzo::kernels::conv {

// Yes for dense 3x3 kernels at stride 1, where the shapes make the method the faster one: of all
// types but bf16 where the CPU has tiles for it.
Support supports_winograd(const KernelArgs& args);
Support supports_winograd_grad_input(const KernelArgs& args);
Support supports_winograd_grad_weight(const KernelArgs& args);

// f32 sums, rounded once. What the transforms scale up cancels later, which loses two or three bits
// of f32 against direct sums, and an infinity or NaN reaches all results of its tile.
void run_winograd(const KernelArgs& args);
void run_winograd_grad_input(const KernelArgs& args);
void run_winograd_grad_weight(const KernelArgs& args);

}  // namespace mezzo::kernels::conv
