// Convolutions with 1x1 kernels as products of pixels and weight, in bf16.
//
// Pixels are read where they are, and those of all images are one product, whose next pixels and
// lines are asked for meanwhile: on tiles (AMX) 0.6 to 1.1 of the time that oneDNN 2.6.3 takes, by
// the vector unit's dot product 0.73 to 1. Under a stride, the pixels that count are copied, or
// spread behind the product. Writing past the caches would be faster still in a program that does
// nothing else: 0.7 of oneDNN's time from 64 to 256 channels, against 0.8. In a training step it is
// slower, 92 ms instead of 70 for ResNet-50's gradients by input, then: the memory that results lie
// in was in use a moment ago, and is in the caches.
#pragma once

#include "mezzo/kernels/cpu/gemm/pixel_rows.h"
#include "mezzo/kernels/kernel.h"

namespace mezzo::kernels::conv {

// Yes for bf16 kernels of 1x1 without padding or groups and multiples of 32 channels, at any
// stride: oneDNN's strided ones are not trusted (conv2d_defects.h).
Support supports_pixels(const KernelArgs& args);
Support supports_pixels_grad_input(const KernelArgs& args);

// Yes for images without a residual, as long as all of the weight is read for each strip of pixels.
bool normalises_pixels(const KernelArgs& args, std::size_t input, bool adds);

// f32 sums, rounded once, by the unit that this CPU multiplies bf16 faster with. In the order of
// the pairs of channels, or of the tiles.
void run_pixels(const KernelArgs& args);
void run_pixels_grad_input(const KernelArgs& args);

// The same by that unit, whatever the CPU does best: for tests, on a CPU that has it.
void run_pixels(const KernelArgs& args, pixels::Unit unit);
void run_pixels_grad_input(const KernelArgs& args, pixels::Unit unit);

}  // namespace mezzo::kernels::conv
