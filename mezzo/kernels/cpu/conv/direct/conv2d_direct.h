// Convolutions with kernels of several taps, in bf16 on the tile unit (AMX).
#pragma once

#include "mezzo/kernels/kernel.h"

namespace mezzo::kernels::conv {

// Yes for bf16 kernels of more than one tap, without groups, and multiples of 32 channels on both
// sides, where it is faster: small images at stride 1, and at any other stride gradients and
// transposed convolutions, whose taps oneDNN multiplies with zeros, few or small images and what
// oneDNN is not trusted with.
Support supports_direct(const KernelArgs& args);
Support supports_direct_grad_input(const KernelArgs& args);
// Of conv_transpose2d.
Support supports_direct_transposed(const KernelArgs& args);

// f32 sums and the bias, rounded once. Any number of threads gives the same bits.
void run_direct(const KernelArgs& args);
void run_direct_grad_input(const KernelArgs& args);
void run_direct_transposed(const KernelArgs& args);

}  // namespace mezzo::kernels::conv
