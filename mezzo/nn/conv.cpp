#include "mezzo/nn/conv.h"

#include <utility>

#include "mezzo/nn/init.h"
#include "mezzo/ops/conv2d.h"

namespace mezzo::nn {
namespace {

Shape weight_shape(std::int64_t in, std::int64_t out, Size2d kernel, std::int64_t groups) {
  check_arg(in > 0 && out > 0 && kernel.h > 0 && kernel.w > 0 && groups > 0, "Conv2d",
            "channels, kernel and groups must be positive: ", in, " to ", out, " channels, kernel ",
            kernel, ", groups ", groups);
  check_arg(in % groups == 0 && out % groups == 0, "Conv2d", "groups ", groups,
            " must divide the channels, ", in, " and ", out);
  return {out, in / groups, kernel.h, kernel.w};
}

}  // namespace

Conv2d::Conv2d(std::int64_t in_channels, std::int64_t out_channels, Size2d kernel,
               Conv2dOptions options)
    : options_(std::move(options)),
      // Kernels read it a pixel at a time: the channels of one lie side by side, as in images.
      weight_(empty(weight_shape(in_channels, out_channels, kernel, options_.groups), DType::kF32,
                    Format::kChannelsLast)) {
  if (options_.weight_init) {
    options_.weight_init(weight_);
  } else {
    init::default_weight(weight_);
  }
  add_parameter("weight", weight_);
  if (!options_.bias) return;
  bias_ = empty({out_channels});
  init::default_bias(bias_, weight_);
  add_parameter("bias", bias_);
}

Tensor Conv2d::forward(const Tensor& x) {
  return conv2d(x, weight_, bias_,
                {.stride = options_.stride,
                 .padding = options_.padding,
                 .dilation = options_.dilation,
                 .groups = options_.groups});
}

}  // namespace mezzo::nn
