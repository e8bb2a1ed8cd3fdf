// Image gradients of convolutions with few image channels, by col2im. Every pixel of the result's
// gradient times the kernel is a window of the image. The windows are f32 rows of one matrix
// product, and are added up where they overlap. Kernels that vectorise over channels leave most of
// their vectors empty here.
#pragma once

#include "mezzo/kernels/kernel.h"

namespace mezzo::kernels::conv {

// Computes f32 sums, rounded once. The bits do not depend on the number of threads.
void run_col2im_grad_input(const KernelArgs& args);

}  // namespace mezzo::kernels::conv
