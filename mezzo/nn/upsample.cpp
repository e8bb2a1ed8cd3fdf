#include "mezzo/nn/upsample.h"

#include "mezzo/ops/upsample.h"

namespace mezzo::nn {

Upsample::Upsample(Size2d scale) : scale_(scale) {
  check_arg(scale.h > 0 && scale.w > 0, "Upsample", "the scale must be positive, not ", scale);
}

Tensor Upsample::forward(const Tensor& x) { return upsample_nearest2d(x, scale_); }

}  // namespace mezzo::nn
