#include "mezzo/models/mlp.h"

#include "mezzo/ops/relu.h"
#include "mezzo/ops/shape_ops.h"

namespace mezzo::models {

Mlp::Mlp(const ModelConfig& config)
    : fc1_(config.in_channels * config.image_size * config.image_size, 512),
      fc3_(512, config.num_classes) {
  add("fc1", fc1_);
  add("fc2", fc2_);
  add("fc3", fc3_);
}

Tensor Mlp::forward(const Tensor& x) { return fc3_(relu(fc2_(relu(fc1_(flatten(x, 1)))))); }

}  // namespace mezzo::models
