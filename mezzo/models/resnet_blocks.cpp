#include "mezzo/models/resnet_blocks.h"

#include "mezzo/nn/init.h"

namespace mezzo::models {
namespace {

nn::Initializer conv_init(ResNetInit init) {
  switch (init) {
    case ResNetInit::kKaiming:
      return [](const Tensor& weight) {
        nn::init::kaiming_normal(weight, {.mode = nn::init::FanMode::kFanOut,
                                          .nonlinearity = nn::init::Nonlinearity::kRelu});
      };
    case ResNetInit::kXavier: return [](const Tensor& weight) { nn::init::xavier_uniform(weight); };
    case ResNetInit::kSmallNormal:
      return [](const Tensor& weight) { nn::init::normal(weight, 0, 0.01); };
  }
  fail("resnet", "unknown initialisation");
}

nn::BatchNormOptions norm_options(const ResNetOptions& options) { return {.eps = options.bn_eps}; }

void init_last_norm(const nn::BatchNorm2d& norm, const ResNetOptions& options) {
  if (options.zero_init_residual) nn::init::constant(norm.weight(), 0);
}

}  // namespace

Padding2d padding_for(std::int64_t kernel, const ResNetOptions& options) {
  return options.same_padding ? Padding2d(Padding::kSame) : Padding2d(kernel / 2);
}

nn::Conv2dOptions conv_options(std::int64_t kernel, std::int64_t stride,
                               const ResNetOptions& options) {
  return {.stride = stride,
          .padding = padding_for(kernel, options),
          .bias = false,
          .weight_init = conv_init(options.init)};
}

void ResidualBlock::add_downsample(std::int64_t in, std::int64_t out, std::int64_t stride,
                                   const ResNetOptions& options) {
  if (stride == 1 && in == out) return;
  downsample_ = std::make_unique<nn::Sequential>();
  downsample_->emplace<nn::Conv2d>(in, out, 1, conv_options(1, stride, options));
  downsample_->emplace<nn::BatchNorm2d>(out, norm_options(options));
  add("downsample", *downsample_);
}

Tensor ResidualBlock::shortcut(const Tensor& x) {
  return downsample_ != nullptr ? (*downsample_)(x) : x;
}

BasicBlock::BasicBlock(std::int64_t in, std::int64_t width, std::int64_t stride,
                       const ResNetOptions& options)
    : conv1_(in, width, 3, conv_options(3, stride, options)),
      bn1_(width, norm_options(options)),
      conv2_(width, width, 3, conv_options(3, 1, options)),
      bn2_(width, norm_options(options)) {
  init_last_norm(bn2_, options);
  add("conv1", conv1_);
  add("bn1", bn1_);
  add("conv2", conv2_);
  add("bn2", bn2_);
  add_downsample(in, width, stride, options);
}

Tensor BasicBlock::forward(const Tensor& x) {
  const Tensor y = conv2_(bn1_.forward_relu(conv1_(x)));
  return bn2_.forward_add_relu(y, shortcut(x));
}

Bottleneck::Bottleneck(std::int64_t in, std::int64_t width, std::int64_t stride,
                       const ResNetOptions& options)
    : conv1_(in, width, 1, conv_options(1, 1, options)),
      bn1_(width, norm_options(options)),
      conv2_(width, width, 3, conv_options(3, stride, options)),
      bn2_(width, norm_options(options)),
      conv3_(width, kExpansion * width, 1, conv_options(1, 1, options)),
      bn3_(kExpansion * width, norm_options(options)) {
  init_last_norm(bn3_, options);
  add("conv1", conv1_);
  add("bn1", bn1_);
  add("conv2", conv2_);
  add("bn2", bn2_);
  add("conv3", conv3_);
  add("bn3", bn3_);
  add_downsample(in, kExpansion * width, stride, options);
}

Tensor Bottleneck::forward(const Tensor& x) {
  Tensor y = bn1_.forward_relu(conv1_(x));
  y = conv3_(bn2_.forward_relu(conv2_(y)));
  return bn3_.forward_add_relu(y, shortcut(x));
}

}  // namespace mezzo::models
