// Two-dimensional transposed convolution.
#pragma once

#include "mezzo/core/tensor.h"
#include "mezzo/ops/window.h"

namespace mezzo {

struct ConvTranspose2dOptions {
  Size2d stride = 1;
  Padding2d padding = 0;
  Size2d output_padding = 0;
  Size2d dilation = 1;
  std::int64_t groups = 1;
};

// The transposed convolution of x [n, c, h, w] with weight [c, o / groups, kh, kw], plus bias [o]
// if it is defined. Each pixel adds its multiple of the kernel to the result, at stride times its
// position. It is the gradient of conv2d() with these options with respect to its input, and its
// own such gradient is conv2d(). The result [n, o, oh, ow] has the common dtype of x and weight
// (see promote()) and is channels-last. oh is (h - 1) * stride + (kh - 1) * dilation + 1 - padding
// + output_padding, where `padding` counts both sides. With Padding::kSame it is h * stride, as in
// TensorFlow, plus output_padding.
//
// Sums are kept in f32 as in conv2d(), and the bias is added to them. Throws ArgumentError for
// shapes that do not fit. Also throws it unless output_padding is smaller than the stride;
// Padding::kSame with a kernel smaller than the stride adds to output_padding. Dumoulin and Visin,
// "A guide to convolution arithmetic for deep learning", 2016.
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias = Tensor(),
                        const ConvTranspose2dOptions& options = {});

}  // namespace mezzo
