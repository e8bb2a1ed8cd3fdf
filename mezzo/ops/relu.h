// Rectified linear unit.
#pragma once

#include "mezzo/core/tensor.h"

namespace mezzo {

// max(x, 0) element by element. NaN stays NaN.
Tensor relu(const Tensor& x);

// The gradient of relu from its output y: 0 where y <= 0, else grad. Where y is NaN the gradient
// passes, as in PyTorch.
Tensor relu_grad(const Tensor& grad, const Tensor& y);

}  // namespace mezzo
