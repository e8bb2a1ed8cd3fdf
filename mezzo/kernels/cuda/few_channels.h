// Convolutions of 16-bit images with few channels, such as a network's first layer, and their
// weight gradients, on Tensor Cores.
#pragma once

#include "mezzo/kernels/cuda/convolution_plan.h"
#include "mezzo/kernels/cuda/launch.cuh"

namespace mezzo::kernels::cuda {

// Whether these kernels take a problem: two operands of bf16 or f16, less than eight channels, one
// group, and a window of at most 176 elements.
Support takes_few_channels(const ConvProblem& problem);

// y = x convolved with weight, plus bias [o] in f32, which may be null. f32 sums are rounded once.
// All tensors are channels-last, and y has the dtype of x.
void convolve_few_channels(const Launch& launch, const ConvProblem& problem, const ConvPointers& at,
                           const float* bias);

// The weight gradient, in dtype problem.result. The order of the f32 sums depends only on the
// shapes and the GPU's number of multiprocessors.
void sum_few_channels(const Launch& launch, const ConvProblem& problem, const ConvPointers& at);

}  // namespace mezzo::kernels::cuda
