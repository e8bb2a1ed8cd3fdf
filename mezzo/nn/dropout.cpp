#include "mezzo/nn/dropout.h"

#include "mezzo/ops/dropout.h"

namespace mezzo::nn {

Dropout::Dropout(double p) : p_(p) {
  check_arg(p >= 0 && p <= 1, "Dropout", "the probability must be in [0, 1], not ", p);
}

Tensor Dropout::forward(const Tensor& x) { return dropout(x, p_, is_training()); }

}  // namespace mezzo::nn
