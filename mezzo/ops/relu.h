// Rectified linear unit.
#pragma once

#include "mezzo/core/tensor.h"

namespace mezzo {

// max(x, 0), element by element. NaN stays NaN.
Tensor relu(const Tensor& x);

// grad where y > 0, else 0: the gradient of relu, from its output y.
Tensor relu_grad(const Tensor& grad, const Tensor& y);

}  // namespace mezzo
