// The input gradient of a convolution with 1x1 kernels, computed as a forward convolution.
#pragma once

#include "mezzo/kernels/kernel.h"

namespace mezzo::kernels::conv {

// True for calls of conv2d_grad_input with 1x1 kernels, and neither padding nor groups.
bool is_pointwise(const KernelArgs& args);

void grad_input_pointwise(const KernelArgs& args);

}  // namespace mezzo::kernels::conv
