#include "mezzo/nn/group_norm.h"

#include "mezzo/ops/group_norm.h"

namespace mezzo::nn {

GroupNorm::GroupNorm(std::int64_t groups, std::int64_t channels, GroupNormOptions options)
    : groups_(groups), channels_(channels), eps_(options.eps) {
  check_arg(groups > 0 && channels > 0, "GroupNorm", "groups and channels must be positive, not ",
            groups, " and ", channels);
  check_arg(channels % groups == 0, "GroupNorm", "the ", channels,
            " channels cannot be divided into ", groups, " groups");
  if (!options.affine) return;
  weight_ = ones({channels});
  bias_ = zeros({channels});
  add_parameter("weight", weight_);
  add_parameter("bias", bias_);
}

Tensor GroupNorm::forward(const Tensor& x) {
  check_arg(x.rank() >= 2 && x.size(1) == channels_, "GroupNorm", "x must have ", channels_,
            " channels, but is ", x);
  return group_norm(x, groups_, weight_, bias_, eps_);
}

Tensor InstanceNorm2d::forward(const Tensor& x) {
  check_arg(x.rank() == 4, "InstanceNorm2d", "x must be [n, c, h, w], but is ", x);
  return GroupNorm::forward(x);
}

}  // namespace mezzo::nn
