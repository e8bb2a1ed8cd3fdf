// Convolutions of 16-bit images with few channels, such as a network's first layer, and their
// gradients by the weight, on Tensor Cores.
#pragma once

#include "mezzo/kernels/cuda/convolution_plan.h"
#include "mezzo/kernels/cuda/launch.cuh"

namespace mezzo::kernels::cuda {

// Whether these kernels take a problem: two operands of bf16 or f16, less than eight channels, one
// group, and a window of at most 176 numbers.
Support takes_few_channels(const ConvProblem& problem);

// y = x convolved with weight, plus bias [o] in f32, which may be null; sums in f32, rounded once.
// All are channels-last, y has the dtype of x.
void convolve_few_channels(const Launch& launch, const ConvProblem& problem, const ConvPointers& at,
                           const float* bias);

// The gradient by the weight, of dtype problem.result; sums in f32 in an order that depends on the
// shapes and the card's multiprocessors only.
void sum_few_channels(const Launch& launch, const ConvProblem& problem, const ConvPointers& at);

}  // namespace mezzo::kernels::cuda
