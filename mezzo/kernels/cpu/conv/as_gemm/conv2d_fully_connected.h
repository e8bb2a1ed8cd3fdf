// Convolutions of images of a few pixels as one matrix product with whole images as rows.
//
// Where nearly every pixel of an image is in the window of every result, as in the last layers of a
// network for small images, [n, pixels * channels] times a matrix that holds the kernel's number
// for each pair of pixels is the convolution, and a product of that size runs at the speed of the
// machine. Kernels for convolutions read the weight once per image there, and add up padding.
#pragma once

#include "mezzo/kernels/kernel.h"

namespace mezzo::kernels::conv {

// Yes for one group, many images of few pixels, and windows that leave little of the matrix empty.
Support supports_fully_connected(const KernelArgs& args);
Support supports_fully_connected_grad_input(const KernelArgs& args);
Support supports_fully_connected_grad_weight(const KernelArgs& args);

// f32 sums, rounded once. Numbers of x that are not finite may also make results NaN that they only
// meet with a factor of 0.
void run_fully_connected(const KernelArgs& args);
void run_fully_connected_grad_input(const KernelArgs& args);
void run_fully_connected_grad_weight(const KernelArgs& args);

}  // namespace mezzo::kernels::conv
