// Convolutions with kernels of several taps, in bf16 on the tile unit (AMX).
#pragma once

#include "mezzo/kernels/kernel.h"

namespace mezzo::kernels::conv {

// Yes for bf16 kernels of more than one tap, without groups, with multiples of 32 channels on both
// sides, where this is faster:
// * small images at stride 1;
// * gradients and transposed convolutions with a stride, where oneDNN multiplies zeros;
// * convolutions with a stride of few or small images, or where oneDNN is not trusted.
Support supports_direct(const KernelArgs& args);
Support supports_direct_grad_input(const KernelArgs& args);
// The same test for conv_transpose2d.
Support supports_direct_transposed(const KernelArgs& args);

// Compute f32 sums with the bias, rounded once. The bits do not depend on the number of threads.
void run_direct(const KernelArgs& args);
void run_direct_grad_input(const KernelArgs& args);
void run_direct_transposed(const KernelArgs& args);

}  // namespace mezzo::kernels::conv
