// Resizing images.
#pragma once

#include <optional>

#include "mezzo/core/tensor.h"
#include "mezzo/ops/window.h"

namespace mezzo {

// x [n, c, h, w] with every pixel repeated scale.h times down and scale.w times across: [n, c,
// h * scale.h, w * scale.w] in the dtype of x, channels-last. Throws ArgumentError unless x is
// floating-point and has four dimensions, and for a scale under 1.
Tensor upsample_nearest2d(const Tensor& x, Size2d scale);

struct UpsampleBilinear2dOptions {
  Size2d scale = 1;              // whole numbers
  std::optional<Size2d> size{};  // size of the result, instead of a scale; it may be smaller than x
  // Whether the centres of the corner pixels of x and of the result coincide. If not, their outer
  // edges do, and results outside of the centres of x repeat its border.
  bool align_corners = false;
};

// x [n, c, h, w] at another size: [n, c, oh, ow] in the dtype of x, channels-last. Each pixel of
// the result is a weighted mean of the four pixels around its position in x, as in PyTorch's
// interpolate() with mode bilinear and without antialiasing. The weights are linear in the distance
// in both directions. Sums are kept in f32. Throws ArgumentError unless x is floating-point and has
// four dimensions and at least one pixel, for a scale or size under 1, and if both are given.
Tensor upsample_bilinear2d(const Tensor& x, const UpsampleBilinear2dOptions& options);

}  // namespace mezzo
