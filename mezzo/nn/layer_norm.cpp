#include "mezzo/nn/layer_norm.h"

#include <algorithm>

#include "mezzo/ops/layer_norm.h"

namespace mezzo::nn {

LayerNorm::LayerNorm(const Shape& shape, LayerNormOptions options)
    : shape_(shape), options_(options) {
  check_arg(!shape.empty() && std::ranges::all_of(shape, [](auto size) { return size > 0; }),
            "LayerNorm", "the normalised sizes must be positive, not ", shape);
  if (!options.affine) return;
  weight_ = ones(shape);
  bias_ = zeros(shape);
  add_parameter("weight", weight_);
  add_parameter("bias", bias_);
}

Tensor LayerNorm::forward(const Tensor& x) {
  return layer_norm(x, shape_, weight_, bias_, options_.eps);
}

}  // namespace mezzo::nn
