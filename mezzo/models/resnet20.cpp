#include "mezzo/models/resnet20.h"

#include "mezzo/nn/init.h"
#include "mezzo/ops/pool.h"
#include "mezzo/ops/shape_ops.h"

namespace mezzo::models {
namespace {

constexpr int kBlocks = 3;  // per stage

nn::Conv2d conv3x3(std::int64_t in, std::int64_t out, std::int64_t stride) {
  return nn::Conv2d(
      in, out, 3,
      {.stride = stride, .padding = 1, .bias = false, .weight_init = [](const Tensor& weight) {
         nn::init::kaiming_normal(weight);
       }});
}

// Option A: the identity, subsampled to every second pixel and padded with zero channels.
Tensor shortcut(const Tensor& x, std::int64_t channels, std::int64_t stride) {
  if (stride == 1) return x;  // [n, c, h, w]
  // Pooling over single pixels takes one of every `stride` and stays channels-last; a slice would
  // leave gaps in memory.
  const Tensor thin = max_pool2d(x, {.kernel = 1, .stride = stride});
  const Tensor zero = zeros({x.size(0), channels - x.size(1), thin.size(2), thin.size(3)},
                            x.dtype(), Format::kChannelsLast, x.device());
  return cat({thin, zero}, 1);
}

class Block : public nn::Module {
 public:
  Block(std::int64_t in, std::int64_t out, std::int64_t stride, bool zero_init)
      : channels_(out),
        stride_(stride),
        conv1_(conv3x3(in, out, stride)),
        bn1_(out),
        conv2_(conv3x3(out, out, 1)),
        bn2_(out) {
    if (zero_init) nn::init::constant(bn2_.weight(), 0);
    add("conv1", conv1_);
    add("bn1", bn1_);
    add("conv2", conv2_);
    add("bn2", bn2_);
  }

  Tensor forward(const Tensor& x) override {
    const Tensor y = conv2_(bn1_.forward_relu(conv1_(x)));
    return bn2_.forward_add_relu(y, shortcut(x, channels_, stride_));
  }

 private:
  std::int64_t channels_;
  std::int64_t stride_;
  nn::Conv2d conv1_;
  nn::BatchNorm2d bn1_;
  nn::Conv2d conv2_;
  nn::BatchNorm2d bn2_;
};

void fill_stage(nn::Sequential& stage, std::int64_t in, std::int64_t out, bool zero_init) {
  for (int i = 0; i < kBlocks; ++i) {
    const bool is_first = i == 0;
    stage.emplace<Block>(is_first ? in : out, out, is_first && in != out ? 2 : 1, zero_init);
  }
}

}  // namespace

ResNet20::ResNet20(const ModelConfig& config)
    : conv1_(conv3x3(config.in_channels, 16, 1)), fc_(64, config.num_classes) {
  fill_stage(layer1_, 16, 16, config.zero_init_residual);
  fill_stage(layer2_, 16, 32, config.zero_init_residual);
  fill_stage(layer3_, 32, 64, config.zero_init_residual);
  add("conv1", conv1_);
  add("bn1", bn1_);
  add("layer1", layer1_);
  add("layer2", layer2_);
  add("layer3", layer3_);
  add("avgpool", avgpool_);
  add("fc", fc_);
}

Tensor ResNet20::forward(const Tensor& x) {
  Tensor y = bn1_.forward_relu(conv1_(x));
  y = layer3_(layer2_(layer1_(y)));
  return fc_(flatten(avgpool_(y), 1));
}

}  // namespace mezzo::models
