#include "mezzo/nn/activation.h"

#include "mezzo/ops/relu.h"
#include "mezzo/ops/shape_ops.h"

namespace mezzo::nn {

Tensor ReLU::forward(const Tensor& x) { return relu(x); }
Tensor GELU::forward(const Tensor& x) { return gelu(x, form_); }
Tensor SiLU::forward(const Tensor& x) { return silu(x); }
Tensor LeakyReLU::forward(const Tensor& x) { return leaky_relu(x, negative_slope_); }
Tensor Sigmoid::forward(const Tensor& x) { return sigmoid(x); }
Tensor Tanh::forward(const Tensor& x) { return tanh(x); }
Tensor Identity::forward(const Tensor& x) { return x; }
Tensor Flatten::forward(const Tensor& x) { return flatten(x, start_, end_); }

}  // namespace mezzo::nn
