// Convolutions whose windows do not overlap, by im2col. Examples are the patch embeddings of vision
// transformers, and the layers between the stages of networks such as ConvNeXt. With a window as
// one pixel of more channels they are 1x1 convolutions, whose kernels run at the speed of matrix
// products.
#pragma once

#include "mezzo/kernels/kernel.h"

namespace mezzo::kernels::conv {

// Compute f32 sums, rounded once.
void run_im2col(const KernelArgs& args);
void run_im2col_grad_input(const KernelArgs& args);
void run_im2col_grad_weight(const KernelArgs& args);

}  // namespace mezzo::kernels::conv
