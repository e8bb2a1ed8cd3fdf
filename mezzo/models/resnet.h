// Residual networks with torchvision's structure, parameter names and initial values.
#pragma once

#include <memory>

#include "mezzo/models/model.h"
#include "mezzo/nn/batch_norm.h"
#include "mezzo/nn/container.h"
#include "mezzo/nn/conv.h"
#include "mezzo/nn/linear.h"
#include "mezzo/nn/pooling.h"

namespace mezzo::models {

// The number of layers with weights. 18 and 34 have blocks of two 3x3 convolutions, the others
// bottlenecks of 1x1, 3x3 and 1x1.
enum class ResNetDepth : std::uint8_t { k18, k34, k50, k101 };

// The initial weights of convolutions (and, for kSmallNormal, of the last layer).
enum class ResNetInit : std::uint8_t {
  kKaiming,      // kaiming_normal by fan_out for ReLU: torchvision's
  kXavier,       // xavier_uniform; the last layer a truncated normal of deviation 0.02
  kSmallNormal,  // normal of deviation 0.01; the last layer too, with a bias of 0
};

struct ResNetOptions {
  bool same_padding = false;        // output sizes are ceil(input / stride), padding is uneven
  bool zero_init_residual = false;  // as in ModelConfig; either enables it
  bool small_stem = false;          // a 3x3 stem of stride 1 without pooling, for small images
  double bn_eps = 1e-5;
  ResNetInit init = ResNetInit::kKaiming;

  // The network of the CIFAR-10 experiment of the MindSpore course (mixed precision of ResNet-50):
  // same padding, zero_init_residual, eps 1e-4, and weights of deviation 0.01. The course intends
  // to replace those weights by xavier_uniform but assigns to a method, so it trains with these.
  static ResNetOptions cifar_experiment();
};

// He, Zhang, Ren, Sun: "Deep residual learning for image recognition", 2015, in version 1.5:
// bottlenecks have their stride in the 3x3 convolution.
//
// State, as in torchvision: conv1.weight, bn1.*, layer{1..4}.{i}.conv{1,2,3}.weight, .bn{1,2,3}.*,
// .downsample.0.weight, .downsample.1.*, fc.{weight,bias}.
class ResNet : public nn::Module {
 public:
  explicit ResNet(ResNetDepth depth, const ModelConfig& config = {}, ResNetOptions options = {});

  // x: [n, in_channels, h, w] of any size.
  Tensor forward(const Tensor& x) override;

 private:
  nn::Conv2d conv1_;
  nn::BatchNorm2d bn1_;
  std::unique_ptr<nn::MaxPool2d> maxpool_;  // null for a small stem
  nn::Sequential layer1_;
  nn::Sequential layer2_;
  nn::Sequential layer3_;
  nn::Sequential layer4_;
  nn::GlobalAvgPool2d avgpool_;
  nn::Linear fc_;
};

}  // namespace mezzo::models
