// The attributes of convolutions, for their definitions and kernels.
#pragma once

#include "mezzo/ops/dispatcher/attrs.h"
#include "mezzo/ops/window.h"

namespace mezzo {

struct Conv2dAttrs {
  Size2d stride = 1;
  Sides padding{};
  Size2d dilation = 1;
  std::int64_t groups = 1;
  bool exact = false;  // direct sums, see ops/exact_sums.h; the same for all gradients
  static constexpr auto kFields =
      std::tuple(Field{"stride", &Conv2dAttrs::stride}, Field{"padding", &Conv2dAttrs::padding},
                 Field{"dilation", &Conv2dAttrs::dilation}, Field{"groups", &Conv2dAttrs::groups},
                 Field{"exact", &Conv2dAttrs::exact, InText::kUnlessDefault});
  bool operator==(const Conv2dAttrs&) const = default;

  Window2d window(Size2d kernel) const { return {kernel, stride, dilation, padding}; }
  // True for a 1x1 kernel over images without padding or groups: a matrix product.
  bool is_pointwise(Size2d kernel) const {
    return kernel == Size2d(1) && padding == Sides{} && groups == 1;
  }
};

// Attributes of conv2d_grad_input and conv2d_grad_weight.
struct Conv2dGradAttrs {
  Conv2dAttrs conv{};
  Size2d size{};                        // size of the result: the image's, or the kernel's
  bool f32_result = false;              // an f32 result from 16-bit inputs
  Format format = Format::kContiguous;  // format of the weight gradient; images are channels-last
  static constexpr auto kFields = std::tuple(
      Field{"conv", &Conv2dGradAttrs::conv}, Field{"size", &Conv2dGradAttrs::size},
      Field{"f32_result", &Conv2dGradAttrs::f32_result}, Field{"format", &Conv2dGradAttrs::format});
  bool operator==(const Conv2dGradAttrs&) const = default;
};

// Attributes of conv_transpose2d.
struct ConvTranspose2dAttrs {
  Conv2dAttrs conv{};         // the convolution whose input gradient is computed
  Size2d output_padding = 0;  // additional rows and columns of the result
  static constexpr auto kFields =
      std::tuple(Field{"conv", &ConvTranspose2dAttrs::conv},
                 Field{"output_padding", &ConvTranspose2dAttrs::output_padding});
  bool operator==(const ConvTranspose2dAttrs&) const = default;
};

}  // namespace mezzo
