// Pooling: the maximum or the mean of windows over height and width.
#pragma once

#include <optional>

#include "mezzo/core/tensor.h"
#include "mezzo/ops/window.h"

namespace mezzo {

struct Pool2dOptions {
  Size2d kernel = 2;
  std::optional<Size2d> stride{};  // the kernel's size if not given
  Padding2d padding = 0;
  bool count_include_pad = true;  // means only: padding counts as zeros
};

// The largest pixel of each window of x [n, c, h, w], channels-last: [n, c, oh, ow]. Padding is
// never chosen; NaN is. Of equal pixels the first gets the gradient. Throws ArgumentError if no
// window fits, or if a window could contain only padding.
Tensor max_pool2d(const Tensor& x, const Pool2dOptions& options = {});

// The mean of each window of x [n, c, h, w], channels-last: [n, c, oh, ow]. Sums are kept in f32.
// Throws like max_pool2d.
Tensor avg_pool2d(const Tensor& x, const Pool2dOptions& options = {});

// The mean of each image of x [n, c, h, w]: [n, c, 1, 1]. Sums are kept in f32.
Tensor global_avg_pool(const Tensor& x);

}  // namespace mezzo
