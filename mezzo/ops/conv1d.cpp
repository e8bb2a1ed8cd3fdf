#include "mezzo/ops/conv1d.h"

#include "mezzo/ops/conv2d.h"
#include "mezzo/ops/shape_ops.h"

namespace mezzo {
namespace {

// [a, b, l] as [a, b, 1, l].
Tensor one_high(const Tensor& x) {
  return reshape(x, {x.shape()[0], x.shape()[1], 1, x.shape()[2]});
}

}  // namespace

Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias,
              const Conv1dOptions& options) {
  check_arg(x.rank() == 3 && weight.rank() == 3, "conv1d", "x has shape ", x.shape(),
            " and the weight ", weight.shape(),
            ", [n, c, l] and [o, c / groups, k] are needed. Use reshape()");
  Conv2dOptions flat;
  flat.stride = {1, options.stride};
  flat.padding = {0, options.padding};
  flat.dilation = {1, options.dilation};
  flat.groups = options.groups;
  const Tensor y = conv2d(one_high(x), one_high(weight), bias, flat);
  return reshape(y, {y.shape()[0], y.shape()[1], y.shape()[3]});
}

}  // namespace mezzo
