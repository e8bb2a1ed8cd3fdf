#include "mezzo/models/mlp.h"

#include <cstdint>
#include <limits>

#include "mezzo/ops/relu.h"
#include "mezzo/ops/shape_ops.h"

namespace mezzo::models {
namespace {

std::int64_t pixels_of(const ModelConfig& config) {
  const std::int64_t size = config.image_size;
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  check_arg(size <= kMost / size / config.in_channels, "mlp", "images ",
            Shape({config.in_channels, size, size}),
            " have too many values to be counted. Choose a smaller size");
  return config.in_channels * size * size;
}

}  // namespace

Mlp::Mlp(const ModelConfig& config) : fc1_(pixels_of(config), 512), fc3_(512, config.num_classes) {
  add("fc1", fc1_);
  add("fc2", fc2_);
  add("fc3", fc3_);
}

Tensor Mlp::forward(const Tensor& x) { return fc3_(relu(fc2_(relu(fc1_(flatten(x, 1)))))); }

}  // namespace mezzo::models
