#include "mezzo/models/tied_head.h"

#include "mezzo/ops/matmul.h"

namespace mezzo::models {

TiedHead::TiedHead(const Tensor& table) : weight_(table) { add_parameter("weight", weight_); }

Tensor TiedHead::forward(const Tensor& x) { return linear(x, weight_); }

}  // namespace mezzo::models
