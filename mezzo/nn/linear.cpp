#include "mezzo/nn/linear.h"

#include "mezzo/nn/init.h"
#include "mezzo/ops/matmul.h"

namespace mezzo::nn {
namespace {

Shape weight_shape(std::int64_t in, std::int64_t out) {
  check_arg(in > 0 && out > 0, "Linear", "sizes must be positive: from ", in, " to ", out);
  return {out, in};
}

}  // namespace

Linear::Linear(std::int64_t in_features, std::int64_t out_features, bool bias)
    : weight_(empty(weight_shape(in_features, out_features))) {
  init::default_weight(weight_);
  add_parameter("weight", weight_);
  if (!bias) return;
  bias_ = empty({out_features});
  init::default_bias(bias_, weight_);
  add_parameter("bias", bias_);
}

Tensor Linear::forward(const Tensor& x) { return linear(x, weight_, bias_); }

}  // namespace mezzo::nn
