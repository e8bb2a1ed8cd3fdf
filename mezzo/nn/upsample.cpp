#include "mezzo/nn/upsample.h"

#include "mezzo/ops/upsample.h"

namespace mezzo::nn {

Upsample::Upsample(Size2d scale, UpsampleOptions options) : scale_(scale), options_(options) {
  check_arg(scale.h > 0 && scale.w > 0, "Upsample", "the scale must be positive, not ", scale);
  check_arg(!options.align_corners || options.mode == UpsampleMode::kBilinear, "Upsample",
            "align_corners is only for interpolation, but pixels are repeated. Leave it out, or "
            "use UpsampleMode::kBilinear");
}

Tensor Upsample::forward(const Tensor& x) {
  if (options_.mode == UpsampleMode::kNearest) return upsample_nearest2d(x, scale_);
  return upsample_bilinear2d(x, {.scale = scale_, .align_corners = options_.align_corners});
}

}  // namespace mezzo::nn
