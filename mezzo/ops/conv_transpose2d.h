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
// if it is defined: each pixel adds its multiple of the kernel to the result, from stride times its
// place on. It is the gradient of conv2d() with these options by its input, and conv2d() is its
// own. The result [n, o, oh, ow] has the common dtype of x and weight (see promote()), lies
// channels-last, and oh is (h - 1) * stride + (kh - 1) * dilation + 1 - padding + output_padding,
// where the padding of both sides is taken off. With Padding::kSame it is h * stride, as in
// TensorFlow, plus output_padding.
//
// Sums are kept in f32 as those of conv2d(), and the bias is added to them there. Throws
// ArgumentError for shapes that do not fit, and for an output_padding that is not smaller than the
// stride, with what Padding::kSame adds for a kernel that is smaller than the stride. Dumoulin and
// Visin, "A guide to convolution arithmetic for deep learning", 2016.
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias = Tensor(),
                        const ConvTranspose2dOptions& options = {});

}  // namespace mezzo
