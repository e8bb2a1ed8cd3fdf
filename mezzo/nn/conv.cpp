#include "mezzo/nn/conv.h"

#include <utility>

#include "mezzo/nn/init.h"
#include "mezzo/ops/conv2d.h"
#include "mezzo/ops/conv_transpose2d.h"

namespace mezzo::nn {
namespace {

void check_sizes(const char* layer, std::int64_t in, std::int64_t out, Size2d kernel,
                 std::int64_t groups) {
  check_arg(in > 0 && out > 0 && kernel.h > 0 && kernel.w > 0 && groups > 0, layer,
            "channels, kernel and groups must be positive: ", in, " to ", out, " channels, kernel ",
            kernel, ", groups ", groups);
  check_arg(in % groups == 0 && out % groups == 0, layer, "groups ", groups,
            " must divide the channels, ", in, " and ", out);
}

// Kernels read the weight pixel by pixel: the channels of a pixel are adjacent, as in images.
Tensor initial_weight(const Shape& shape, const Initializer& initializer) {
  Tensor weight = empty(shape, DType::kF32, Format::kChannelsLast);
  if (initializer) {
    initializer(weight);
  } else {
    init::default_weight(weight);
  }
  return weight;
}

Tensor initial_bias(std::int64_t channels, const Tensor& weight) {
  Tensor bias = empty({channels});
  init::default_bias(bias, weight);
  return bias;
}

}  // namespace

Conv2d::Conv2d(std::int64_t in_channels, std::int64_t out_channels, Size2d kernel,
               Conv2dOptions options)
    : options_(std::move(options)) {
  check_sizes("Conv2d", in_channels, out_channels, kernel, options_.groups);
  weight_ = initial_weight({out_channels, in_channels / options_.groups, kernel.h, kernel.w},
                           options_.weight_init);
  add_parameter("weight", weight_);
  if (!options_.bias) return;
  bias_ = initial_bias(out_channels, weight_);
  add_parameter("bias", bias_);
}

Tensor Conv2d::forward(const Tensor& x) {
  return conv2d(x, weight_, bias_,
                {.stride = options_.stride,
                 .padding = options_.padding,
                 .dilation = options_.dilation,
                 .groups = options_.groups});
}

ConvTranspose2d::ConvTranspose2d(std::int64_t in_channels, std::int64_t out_channels, Size2d kernel,
                                 ConvTranspose2dOptions options)
    : options_(std::move(options)) {
  check_sizes("ConvTranspose2d", in_channels, out_channels, kernel, options_.groups);
  weight_ = initial_weight({in_channels, out_channels / options_.groups, kernel.h, kernel.w},
                           options_.weight_init);
  add_parameter("weight", weight_);
  if (!options_.bias) return;
  bias_ = initial_bias(out_channels, weight_);
  add_parameter("bias", bias_);
}

Tensor ConvTranspose2d::forward(const Tensor& x) {
  return conv_transpose2d(x, weight_, bias_,
                          {.stride = options_.stride,
                           .padding = options_.padding,
                           .output_padding = options_.output_padding,
                           .dilation = options_.dilation,
                           .groups = options_.groups});
}

}  // namespace mezzo::nn
