// Enlarging layers.
#pragma once

#include "mezzo/nn/module.h"
#include "mezzo/ops/window.h"

namespace mezzo::nn {

// Repeats every pixel of x [n, c, h, w] scale.h times down and scale.w times across: PyTorch's
// Upsample in its default mode, nearest, with whole numbers as scale_factor. Keeps the dtype of x.
class Upsample : public Module {
 public:
  // Throws ArgumentError unless both numbers are positive.
  explicit Upsample(Size2d scale);

  Tensor forward(const Tensor& x) override;

 private:
  Size2d scale_;
};

}  // namespace mezzo::nn
