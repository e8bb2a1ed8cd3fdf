// The blocks of ResNet, and how its convolutions are set up.
#pragma once

#include <memory>

#include "mezzo/models/resnet.h"

namespace mezzo::models {

// The padding of a square kernel that keeps the size at stride 1.
Padding2d padding_for(std::int64_t kernel, const ResNetOptions& options);

// A convolution without bias, since batch norm follows.
nn::Conv2dOptions conv_options(std::int64_t kernel, std::int64_t stride,
                               const ResNetOptions& options);

// The shortcut of a block: the identity where shapes allow it, else `downsample`, a strided 1x1
// convolution with batch norm (the paper's option B).
class ResidualBlock : public nn::Module {
 protected:
  void add_downsample(std::int64_t in, std::int64_t out, std::int64_t stride,
                      const ResNetOptions& options);
  Tensor shortcut(const Tensor& x);

 private:
  std::unique_ptr<nn::Sequential> downsample_;  // null for the identity
};

// Two convolutions: 3x3, 3x3.
class BasicBlock : public ResidualBlock {
 public:
  BasicBlock(std::int64_t in, std::int64_t width, std::int64_t stride,
             const ResNetOptions& options);

  Tensor forward(const Tensor& x) override;

 private:
  nn::Conv2d conv1_;
  nn::BatchNorm2d bn1_;
  nn::Conv2d conv2_;
  nn::BatchNorm2d bn2_;
};

// Three convolutions: 1x1, 3x3 with the stride, 1x1 to kExpansion * width channels.
class Bottleneck : public ResidualBlock {
 public:
  static constexpr std::int64_t kExpansion = 4;

  Bottleneck(std::int64_t in, std::int64_t width, std::int64_t stride,
             const ResNetOptions& options);

  Tensor forward(const Tensor& x) override;

 private:
  nn::Conv2d conv1_;
  nn::BatchNorm2d bn1_;
  nn::Conv2d conv2_;
  nn::BatchNorm2d bn2_;
  nn::Conv2d conv3_;
  nn::BatchNorm2d bn3_;
};

}  // namespace mezzo::models
