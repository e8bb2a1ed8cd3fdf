// The inputs of RMS normalization, for its definitions and kernels. Its attributes are those of
// layer normalization.
#pragma once

#include "mezzo/ops/layer_norm_attrs.h"

namespace mezzo {

struct RmsNormInput {
  enum : std::size_t { kX, kWeight };
};

struct RmsNormGradInput {
  enum : std::size_t { kGrad, kX, kWeight, kRstd };
};

}  // namespace mezzo
