#include "mezzo/nn/pooling.h"

#include "mezzo/ops/pool.h"

namespace mezzo::nn {
namespace {

mezzo::Pool2dOptions call_options(Size2d kernel, const Pool2dOptions& options) {
  return {.kernel = kernel,
          .stride = options.stride,
          .padding = options.padding,
          .count_include_pad = options.count_include_pad};
}

}  // namespace

Tensor MaxPool2d::forward(const Tensor& x) {
  return max_pool2d(x, call_options(kernel_, options_));
}

Tensor AvgPool2d::forward(const Tensor& x) {
  return avg_pool2d(x, call_options(kernel_, options_));
}

Tensor GlobalAvgPool2d::forward(const Tensor& x) { return global_avg_pool(x); }

}  // namespace mezzo::nn
