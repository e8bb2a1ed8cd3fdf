// Softmax and its logarithm along one axis.
#pragma once

#include "mezzo/core/tensor.h"

namespace mezzo {

// exp(x - max) / sum(exp(x - max)) along `axis` (negative ones count from the end), in the dtype of
// x. A row of only -inf has no finite maximum to subtract and gives NaN, as in PyTorch.
Tensor softmax(const Tensor& x, std::int64_t axis = -1);

// x - max - log(sum(exp(x - max))) along `axis`: the logarithm of softmax, accurate where softmax
// underflows.
Tensor log_softmax(const Tensor& x, std::int64_t axis = -1);

// The gradients of softmax and log_softmax from their output y: y * (grad - sum(grad * y)), and
// grad - exp(y) * sum(grad).
Tensor softmax_grad(const Tensor& grad, const Tensor& y, std::int64_t axis);
Tensor log_softmax_grad(const Tensor& grad, const Tensor& y, std::int64_t axis);

}  // namespace mezzo
