// Gradients as passes over memory take them.
#pragma once

#include <span>
#include <vector>

#include "mezzo/core/tensor.h"

namespace mezzo::optim {

// The gradients of parameters for changes in place, undefined where there are none: each is dense
// and has its memory for itself. Who shares it may be somebody whose turn comes in another call,
// such as a parameter of another optimizer.
std::vector<Tensor> own_gradients_of(std::span<const Tensor> params);

}  // namespace mezzo::optim
