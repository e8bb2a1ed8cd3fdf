// Convolutions of images of a few pixels as one matrix product, with whole images as rows.
//
// In the last layers of a network for small images, nearly every pixel is in the window of every
// result. The convolution is then the product of [n, pixels * channels] and a matrix that holds the
// kernel's value for each pair of pixels. A product of that size runs at the machine's full speed.
// Convolution kernels would read the weight once per image, and multiply padding.
#pragma once

#include "mezzo/kernels/kernel.h"

namespace mezzo::kernels::conv {

// Compute f32 sums, rounded once. Values of x that are not finite may make results NaN that they
// meet only with a factor of 0.
void run_fully_connected(const KernelArgs& args);
void run_fully_connected_grad_input(const KernelArgs& args);
void run_fully_connected_grad_weight(const KernelArgs& args);

}  // namespace mezzo::kernels::conv
