#include "mezzo/models/lenet5.h"

#include "mezzo/ops/pool.h"
#include "mezzo/ops/relu.h"
#include "mezzo/ops/shape_ops.h"

namespace mezzo::models {
namespace {

int padding_for(std::int64_t image_size) {
  check_arg(image_size == 28 || image_size == 32, "lenet5",
            "images must be 28x28 or 32x32 pixels, not ", image_size, "x", image_size,
            ". Use a ResNet for other sizes");
  return image_size == 28 ? 2 : 0;
}

}  // namespace

LeNet5::LeNet5(const ModelConfig& config)
    : conv1_(config.in_channels, 6, 5, {.padding = padding_for(config.image_size)}),
      fc3_(84, config.num_classes) {
  add("conv1", conv1_);
  add("conv2", conv2_);
  add("fc1", fc1_);
  add("fc2", fc2_);
  add("fc3", fc3_);
}

Tensor LeNet5::forward(const Tensor& x) {
  // x: [n, in_channels, 28, 28] or [n, in_channels, 32, 32]
  Tensor y = max_pool2d(relu(conv1_(x)), {.kernel = 2});  // [n, 6, 14, 14]
  y = max_pool2d(relu(conv2_(y)), {.kernel = 2});         // [n, 16, 5, 5]
  y = relu(fc1_(flatten(y, 1)));
  return fc3_(relu(fc2_(y)));
}

}  // namespace mezzo::models
