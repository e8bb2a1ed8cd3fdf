#include "mezzo/nn/rms_norm.h"

#include <algorithm>

#include "mezzo/ops/rms_norm.h"

namespace mezzo::nn {

RmsNorm::RmsNorm(const Shape& shape, RmsNormOptions options) : shape_(shape), options_(options) {
  check_arg(!shape.empty() && std::ranges::all_of(shape, [](auto size) { return size > 0; }),
            "RmsNorm", "the normalised sizes must be positive, not ", shape,
            ". Give the sizes of the last axes");
  if (!options.affine) return;
  weight_ = ones(shape);
  add_parameter("weight", weight_);
}

Tensor RmsNorm::forward(const Tensor& x) { return rms_norm(x, shape_, weight_, options_.eps); }

}  // namespace mezzo::nn
