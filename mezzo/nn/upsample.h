// Enlarging layers.
#pragma once

#include "mezzo/nn/module.h"
#include "mezzo/ops/window.h"

namespace mezzo::nn {

enum class UpsampleMode : std::uint8_t { kNearest, kBilinear };

struct UpsampleOptions {
  UpsampleMode mode = UpsampleMode::kNearest;
  bool align_corners = false;  // of kBilinear: see upsample_bilinear2d()
};

// x [n, c, h, w] scale.h times as high and scale.w times as wide, by repeating pixels or by
// interpolating them: PyTorch's Upsample with whole numbers as scale_factor. Keeps the dtype of x.
class Upsample : public Module {
 public:
  // Throws ArgumentError unless both numbers are positive, and for align_corners without kBilinear.
  explicit Upsample(Size2d scale, UpsampleOptions options = {});

  Tensor forward(const Tensor& x) override;

 private:
  Size2d scale_;
  UpsampleOptions options_;
};

}  // namespace mezzo::nn
