// Convolutions whose windows do not overlap: patch embeddings of vision transformers, and the
// layers between the stages of networks such as ConvNeXt. With the windows as pixels of more
// channels they are 1x1 convolutions, whose kernels run at the speed of products.
#pragma once

#include "mezzo/kernels/kernel.h"

namespace mezzo::kernels::conv {

// Yes for windows of several pixels that do not overlap, without padding, dilation or groups, where
// it is faster: gradients by images of few or odd channels, and windows of many numbers.
Support supports_im2col(const KernelArgs& args);
Support supports_im2col_grad_input(const KernelArgs& args);
Support supports_im2col_grad_weight(const KernelArgs& args);

// f32 sums, rounded once.
void run_im2col(const KernelArgs& args);
void run_im2col_grad_input(const KernelArgs& args);
void run_im2col_grad_weight(const KernelArgs& args);

}  // namespace mezzo::kernels::conv
