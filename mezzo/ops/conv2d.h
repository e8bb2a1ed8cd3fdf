// Two-dimensional convolution.
#pragma once

#include "mezzo/core/tensor.h"
#include "mezzo/ops/window.h"

namespace mezzo {

struct Conv2dOptions {
  Size2d stride = 1;
  Padding2d padding = 0;
  Size2d dilation = 1;
  std::int64_t groups = 1;
};

// The convolution (as in all frameworks a correlation) of x [n, c, h, w] with weight [o, c /
// groups, kh, kw], plus bias [o] if it is defined. The result [n, o, oh, ow] has the common dtype
// of x and weight (see promote()) and is channels-last. Sums are kept in f32 (f64 for f64, and for
// integers, which are exact up to 2^53). The bias is added to these sums and may have any floating
// dtype, whatever the dtype of x. Throws ArgumentError for shapes that do not fit.
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = Tensor(),
              const Conv2dOptions& options = {});

}  // namespace mezzo
