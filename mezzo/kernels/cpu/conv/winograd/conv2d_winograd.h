// Convolutions with 3x3 kernels at stride 1, and their gradients, by Winograd's method: 36
// multiply-adds for 16 results of a kernel instead of 144 (winograd_plan.h).
#pragma once

#include "mezzo/kernels/kernel.h"

namespace mezzo::kernels::conv {

// Compute f32 sums, rounded once. Values that the transforms scale up cancel later, which loses two
// or three bits of f32 compared with direct sums. An infinity or NaN reaches all results of its
// tile.
void run_winograd(const KernelArgs& args);
void run_winograd_grad_input(const KernelArgs& args);
void run_winograd_grad_weight(const KernelArgs& args);

}  // namespace mezzo::kernels::conv
