// One-dimensional convolution.
#pragma once

#include "mezzo/core/tensor.h"

namespace mezzo {

struct Conv1dOptions {
  std::int64_t stride = 1;
  std::int64_t padding = 0;  // on both sides
  std::int64_t dilation = 1;
  std::int64_t groups = 1;
};

// The convolution (as in all frameworks a correlation) of x [n, c, l] with weight [o, c / groups,
// k], plus bias [o] if it is defined: [n, o, ol]. It is conv2d() of images that are one pixel high,
// with its dtypes, precision rule and errors.
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias = Tensor(),
              const Conv1dOptions& options = {});

}  // namespace mezzo
