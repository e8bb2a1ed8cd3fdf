// The small residual networks for 32x32 images.
#pragma once

#include "mezzo/models/model.h"
#include "mezzo/nn/batch_norm.h"
#include "mezzo/nn/container.h"
#include "mezzo/nn/conv.h"
#include "mezzo/nn/linear.h"
#include "mezzo/nn/pooling.h"

namespace mezzo::models {

// ResNet-20 of He, Zhang, Ren, Sun: "Deep residual learning for image recognition", 2015, section
// 4.2: a 3x3 stem of 16 channels, three stages of 16, 32 and 64 channels with three blocks of two
// 3x3 convolutions each, global average pooling and one linear layer. Shortcuts are the paper's
// option A and have no parameters: where a stage begins with stride 2, they take every second pixel
// and zeros for the new channels. 269 722 parameters for 3 channels and 10 classes.
//
// Convolutions begin as kaiming_normal by fan_in, which the paper cites. Parameters: conv1, bn1,
// layer{1,2,3}.{0,1,2}.{conv1,bn1,conv2,bn2}, fc.
class ResNet20 : public nn::Module {
 public:
  explicit ResNet20(const ModelConfig& config = {});

  // x: [n, in_channels, h, w] of any size.
  Tensor forward(const Tensor& x) override;

 private:
  nn::Conv2d conv1_;
  nn::BatchNorm2d bn1_{16};
  nn::Sequential layer1_;
  nn::Sequential layer2_;
  nn::Sequential layer3_;
  nn::GlobalAvgPool2d avgpool_;
  nn::Linear fc_;
};

}  // namespace mezzo::models
