// A network of fully connected layers.
#pragma once

#include "mezzo/models/model.h"
#include "mezzo/nn/linear.h"

namespace mezzo::models {

// Three layers with ReLU between them: all pixels to 512, to 512, to num_classes. For MNIST
// 784-512-512-10.
class Mlp : public nn::Module {
 public:
  explicit Mlp(const ModelConfig& config = {.in_channels = 1, .image_size = 28});

  // x: [n, ...] with in_channels * image_size^2 elements per image.
  Tensor forward(const Tensor& x) override;

 private:
  nn::Linear fc1_;
  nn::Linear fc2_{512, 512};
  nn::Linear fc3_;
};

}  // namespace mezzo::models
