// Gradients by images of few channels: every pixel of the result's gradient times the kernel is a
// window of the image, and the windows, f32 rows of one matrix product, are added up where they
// overlap. Kernels that go by channels leave most of their vectors empty there.
#pragma once

#include "mezzo/kernels/kernel.h"

namespace mezzo::kernels::conv {

// Yes at a stride for images of few channels and results of many, without groups or dilation.
Support supports_col2im_grad_input(const KernelArgs& args);

// f32 sums, rounded once. Any number of threads gives the same bits.
void run_col2im_grad_input(const KernelArgs& args);

}  // namespace mezzo::kernels::conv
