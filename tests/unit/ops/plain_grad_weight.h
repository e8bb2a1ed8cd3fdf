// One element of a weight gradient as a plain sum, the reference for kernels of conv2d_grad_weight.
#pragma once

#include <cmath>

#include "mezzo/core/tensor.h"
#include "mezzo/ops/conv2d_attrs.h"

namespace mezzo::test {

// The sum for one element, and the sum of the products' magnitudes.
struct PlainSum {
  double value = 0, magnitude = 0;
  std::int64_t terms = 0;
};

// The element is at [out channel, in channel, row, column]; both tensors are dense f64.
inline PlainSum plain_grad_weight(const Conv2dAttrs& attrs, const Tensor& grad, const Tensor& x,
                                  const Shape& at) {
  const double* gs = grad.data<double>();
  const double* xs = x.data<double>();
  const Shape& out = grad.shape();
  const Shape& in = x.shape();
  PlainSum sum;
  for (std::int64_t n = 0; n < out[0]; ++n) {
    for (std::int64_t h = 0; h < out[2]; ++h) {
      const std::int64_t row = h * attrs.stride.h + at[2] * attrs.dilation.h - attrs.padding.top;
      if (row < 0 || row >= in[2]) continue;
      for (std::int64_t w = 0; w < out[3]; ++w) {
        const std::int64_t col = w * attrs.stride.w + at[3] * attrs.dilation.w - attrs.padding.left;
        if (col < 0 || col >= in[3]) continue;
        const double product = gs[((n * out[1] + at[0]) * out[2] + h) * out[3] + w] *
                               xs[((n * in[1] + at[1]) * in[2] + row) * in[3] + col];
        sum.value += product;
        sum.magnitude += std::abs(product);
        ++sum.terms;
      }
    }
  }
  return sum;
}

// The position of element i of the weight.
inline Shape place_of_weight(const Shape& weight, std::int64_t i) {
  return {i / (weight[1] * weight[2] * weight[3]), i / (weight[2] * weight[3]) % weight[1],
          i / weight[3] % weight[2], i % weight[3]};
}

}  // namespace mezzo::test
