// Finding and running the kernel of a call.
#pragma once

#include "mezzo/ops/op.h"

namespace mezzo {

// Runs the first kernel of the inputs' device that supports the call; the plain double-precision
// loop comes last. Outputs are allocated. Throws UnsupportedError with every kernel's reason if
// none fits. Refusals are logged under MEZZO_LOG=dispatch.
void run_kernel(const OpDef& op, Inputs inputs, std::span<Tensor> outputs, const Attrs& attrs);

}  // namespace mezzo
