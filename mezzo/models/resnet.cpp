#include "mezzo/models/resnet.h"

#include <array>

#include "mezzo/models/resnet_blocks.h"
#include "mezzo/nn/init.h"
#include "mezzo/ops/shape_ops.h"

namespace mezzo::models {
namespace {

constexpr std::int64_t kStem = 64;  // channels

struct Depth {
  bool bottleneck;
  std::array<int, 4> blocks;  // per stage
  std::int64_t last_channels() const { return bottleneck ? 2048 : 512; }
};

// Table 1 of the paper.
Depth depth_of(ResNetDepth depth) {
  switch (depth) {
    case ResNetDepth::k18: return {false, {2, 2, 2, 2}};
    case ResNetDepth::k34: return {false, {3, 4, 6, 3}};
    case ResNetDepth::k50: return {true, {3, 4, 6, 3}};
    case ResNetDepth::k101: return {true, {3, 4, 23, 3}};
  }
  fail("resnet", "unknown depth");
}

void init_last_layer(const nn::Linear& fc, ResNetInit init) {
  switch (init) {
    case ResNetInit::kKaiming: return;  // Linear's default
    case ResNetInit::kXavier: nn::init::truncated_normal(fc.weight(), 0, 0.02); break;
    case ResNetInit::kSmallNormal: nn::init::normal(fc.weight(), 0, 0.01); break;
  }
  nn::init::constant(fc.bias(), 0);
}

}  // namespace

ResNetOptions ResNetOptions::cifar_experiment() {
  return {.same_padding = true,
          .zero_init_residual = true,
          .bn_eps = 1e-4,
          .init = ResNetInit::kSmallNormal};
}

ResNet::ResNet(ResNetDepth depth, const ModelConfig& config, ResNetOptions options)
    : conv1_(config.in_channels, kStem, options.small_stem ? 3 : 7,
             conv_options(options.small_stem ? 3 : 7, options.small_stem ? 1 : 2, options)),
      bn1_(kStem, {.eps = options.bn_eps}),
      fc_(depth_of(depth).last_channels(), config.num_classes) {
  options.zero_init_residual |= config.zero_init_residual;
  const Depth shape = depth_of(depth);
  const std::array<nn::Sequential*, 4> stages = {&layer1_, &layer2_, &layer3_, &layer4_};
  std::int64_t in = kStem;
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    const std::int64_t width = kStem << stage;
    for (int i = 0; i < shape.blocks[stage]; ++i) {
      const std::int64_t stride = stage > 0 && i == 0 ? 2 : 1;
      if (shape.bottleneck) {
        stages[stage]->emplace<Bottleneck>(in, width, stride, options);
        in = Bottleneck::kExpansion * width;
      } else {
        stages[stage]->emplace<BasicBlock>(in, width, stride, options);
        in = width;
      }
    }
  }
  init_last_layer(fc_, options.init);
  add("conv1", conv1_);
  add("bn1", bn1_);
  if (!options.small_stem) {
    maxpool_ = std::make_unique<nn::MaxPool2d>(
        3, nn::Pool2dOptions{.stride = 2, .padding = padding_for(3, options)});
    add("maxpool", *maxpool_);
  }
  add("layer1", layer1_);
  add("layer2", layer2_);
  add("layer3", layer3_);
  add("layer4", layer4_);
  add("avgpool", avgpool_);
  add("fc", fc_);
}

Tensor ResNet::forward(const Tensor& x) {
  Tensor y = bn1_.forward_relu(conv1_(x));
  if (maxpool_ != nullptr) y = (*maxpool_)(y);
  y = layer4_(layer3_(layer2_(layer1_(y))));
  return fc_(flatten(avgpool_(y), 1));
}

}  // namespace mezzo::models
