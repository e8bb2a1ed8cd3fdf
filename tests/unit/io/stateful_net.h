// A network for tests of checkpoints and of resuming from them.
#pragma once

#include "mezzo/nn/nn.h"
#include "mezzo/ops/relu.h"
#include "mezzo/ops/shape_ops.h"

namespace mezzo::test {

// Has everything that has state: weights, running statistics, dropout. x: [n, 1, 28, 28].
class StatefulNet final : public nn::Module {
 public:
  StatefulNet() {
    add("conv", conv_);
    add("norm", norm_);
    add("dropout", dropout_);
    add("fc", fc_);
  }

  Tensor forward(const Tensor& x) override {
    return fc_(dropout_(flatten(relu(norm_(conv_(x))), 1)));
  }

 private:
  nn::Conv2d conv_{1, 4, 3, {.stride = 2}};
  nn::BatchNorm2d norm_{4};
  nn::Dropout dropout_{0.25};
  nn::Linear fc_{4 * 13 * 13, 10};
};

}  // namespace mezzo::test
