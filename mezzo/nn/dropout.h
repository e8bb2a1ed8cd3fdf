// Dropout.
#pragma once

#include "mezzo/nn/module.h"

namespace mezzo::nn {

// In training, sets each element to 0 with probability p and divides the others by 1 - p (with p =
// 1 none are left). Otherwise the identity. Keeps shape and dtype. The random numbers come from
// default_generator(). When called in training with p > 0, throws ArgumentError for integers.
class Dropout : public Module {
 public:
  // Throws ArgumentError unless 0 <= p <= 1.
  explicit Dropout(double p = 0.5);

  Tensor forward(const Tensor& x) override;

 private:
  double p_;
};

}  // namespace mezzo::nn
