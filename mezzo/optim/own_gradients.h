// Gradients prepared for in-place changes.
#pragma once

#include <span>
#include <vector>

#include "mezzo/core/tensor.h"

namespace mezzo::optim {

// The gradients of parameters for in-place changes, undefined where there are none. Each is dense
// and does not share its memory. Without this, another call might change the same memory again, for
// example for a parameter of another optimizer.
std::vector<Tensor> own_gradients_of(std::span<const Tensor> params);

}  // namespace mezzo::optim
