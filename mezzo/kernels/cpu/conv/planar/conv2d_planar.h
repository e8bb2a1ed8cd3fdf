// Convolutions with few output channels, and input gradients of few channels. oneDNN's vectors hold
// output channels, and would be mostly empty; here they hold adjacent pixels.
#pragma once

#include "mezzo/kernels/kernel.h"

namespace mezzo::kernels::conv {

// Computes f32 sums, whatever the dtype, rounded once. The order of the sums depends on the shapes
// alone, so the bits do not depend on the number of threads.
void run_planar(const KernelArgs& args);

void run_planar_grad_input(const KernelArgs& args);

}  // namespace mezzo::kernels::conv
