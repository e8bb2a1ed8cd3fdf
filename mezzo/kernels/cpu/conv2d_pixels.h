// Convolutions with 1x1 kernels as products of pixels and weight on tiles (AMX).
//
// Pixels are read where they are, and those of all images are one product. That is faster than
// oneDNN 2.6.3 where a layer makes many channels of few, has little to add up and much to write,
// and where images are small. Writing past the caches would be faster still in a program that does
// nothing else: 0.7 of oneDNN's time from 64 to 256 channels, against 0.9. In a training step it is
// slower, 92 ms instead of 70 for ResNet-50's gradients by input: the memory that results lie in
// was in use a moment ago, and is in the caches.
#pragma once

#include "mezzo/kernels/kernel.h"

namespace mezzo::kernels::conv {

// Yes for bf16 kernels of 1x1 without stride, padding, groups or bias and multiples of 32 channels,
// where it is faster: sums are short, or images small.
Support supports_pixels(const KernelArgs& args);
Support supports_pixels_grad_input(const KernelArgs& args);

// f32 sums in the order of the tiles, rounded once.
void run_pixels(const KernelArgs& args);
void run_pixels_grad_input(const KernelArgs& args);

}  // namespace mezzo::kernels::conv
