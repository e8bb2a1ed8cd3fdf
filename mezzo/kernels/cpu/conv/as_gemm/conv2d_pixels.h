// Convolutions with 1x1 kernels as products of pixels and weight, in bf16.
//
// Pixels are read in place, and those of all images form one product. The next pixels and the lines
// of their results are prefetched meanwhile. On tiles (AMX) this takes 0.6 to 1.1 of oneDNN 2.6.3's
// time, by the vector unit's dot product 0.73 to 1. With a stride, the pixels that count are copied
// before the product, or spread after it.
//
// Results are not written past the caches. That would be faster in a program that does nothing
// else, but slower in a training step: 92 instead of 70 ms for ResNet-50's input gradients. The
// memory of the results was in use a moment ago, and is still in the caches.
#pragma once

#include "mezzo/kernels/cpu/gemm/pixel_rows.h"
#include "mezzo/kernels/kernel.h"

namespace mezzo::kernels::conv {

// Yes for images without a residual, if the whole weight is read for each strip of pixels.
bool normalises_pixels(const KernelArgs& args, std::size_t input, bool adds);

// Compute f32 sums, rounded once, on the CPU's faster unit for bf16. The order of the sums is that
// of the channels' pairs or of the tiles.
void run_pixels(const KernelArgs& args);
void run_pixels_grad_input(const KernelArgs& args);

// The same calls on a given unit, whichever is faster: for tests, on a CPU that has the unit.
void run_pixels(const KernelArgs& args, pixels::Unit unit);
void run_pixels_grad_input(const KernelArgs& args, pixels::Unit unit);

}  // namespace mezzo::kernels::conv
