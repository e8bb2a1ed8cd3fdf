// Upsampling layers.
#pragma once

#include "mezzo/nn/module.h"
#include "mezzo/ops/window.h"

namespace mezzo::nn {

enum class UpsampleMode : std::uint8_t { kNearest, kBilinear };

struct UpsampleOptions {
  UpsampleMode mode = UpsampleMode::kNearest;
  bool align_corners = false;  // for kBilinear: see upsample_bilinear2d()
};

// Enlarges x [n, c, h, w] by scale.h and scale.w, by repeating or interpolating pixels: PyTorch's
// Upsample with integers as scale_factor. Keeps the dtype of x.
class Upsample : public Module {
 public:
  // Throws ArgumentError unless both scales are positive, and for align_corners without kBilinear.
  explicit Upsample(Size2d scale, UpsampleOptions options = {});

  Tensor forward(const Tensor& x) override;

 private:
  Size2d scale_;
  UpsampleOptions options_;
};

}  // namespace mezzo::nn
