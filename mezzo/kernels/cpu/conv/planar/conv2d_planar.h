// Convolutions with few channels of the result, and gradients by images of few channels: oneDNN's
// vectors of output channels would be mostly empty, here they hold neighbouring pixels.
#pragma once

#include "mezzo/kernels/kernel.h"

namespace mezzo::kernels::conv {

// Calls of conv2d for at most 8 channels of the result, where this is faster than oneDNN.
Support supports_planar(const KernelArgs& args);

// f32 sums whatever the dtype, rounded once. The order of the sums depends on the shapes alone: any
// number of threads gives the same bits.
void run_planar(const KernelArgs& args);

// The same for conv2d_grad_input at stride 1: it is a convolution of the result's gradient with the
// turned kernel.
Support supports_planar_grad_input(const KernelArgs& args);
void run_planar_grad_input(const KernelArgs& args);

}  // namespace mezzo::kernels::conv
