// LeNet-5, with ReLU and max pooling.
#pragma once

#include "mezzo/models/model.h"
#include "mezzo/nn/conv.h"
#include "mezzo/nn/linear.h"

namespace mezzo::models {

// LeCun, Bottou, Bengio, Haffner: "Gradient-based learning applied to document recognition", 1998,
// in the form of current tutorials: convolutions of 6 and 16 5x5 kernels, each with ReLU and 2x2
// max pooling, then layers of 120, 84 and num_classes. The paper's images are 32x32; those of 28x28
// are padded to that size by conv1, so fc1 has 400 inputs either way.
class LeNet5 : public nn::Module {
 public:
  // Throws ArgumentError unless the image size is 28 or 32.
  explicit LeNet5(const ModelConfig& config = {.in_channels = 1, .image_size = 28});

  Tensor forward(const Tensor& x) override;

 private:
  nn::Conv2d conv1_;
  nn::Conv2d conv2_{6, 16, 5};
  nn::Linear fc1_{400, 120};  // 16 channels of 5x5 pixels
  nn::Linear fc2_{120, 84};
  nn::Linear fc3_;
};

}  // namespace mezzo::models
