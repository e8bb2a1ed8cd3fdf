// The weight gradient of a convolution with too few channels for the panels of grad_weight.h: lanes
// run over pixels.
#pragma once

#include "mezzo/kernels/kernel.h"

namespace mezzo::kernels {

// f32 sums, of products that are exact in f32 for 16-bit inputs, rounded once if the result is bf16
// or f16. The order of the sums depends on the shapes and the instruction set only, not on the
// number of threads. A value that is not finite may make sums NaN that it meets only with a factor
// of 0.
void run_grad_weight_planar(const KernelArgs& args);

}  // namespace mezzo::kernels
