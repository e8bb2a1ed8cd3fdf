// The attributes of softplus, for its definition and kernels.
#pragma once

#include "mezzo/ops/dispatcher/attrs.h"

namespace mezzo {

struct SoftplusAttrs {
  double beta = 1;  // -1: the logarithm of the logistic function
  static constexpr auto kFields = std::tuple(Field{"beta", &SoftplusAttrs::beta});
  bool operator==(const SoftplusAttrs&) const = default;
};

}  // namespace mezzo
