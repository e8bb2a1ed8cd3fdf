// The attributes of matmul, for its definition and kernels.
#pragma once

#include "mezzo/ops/dispatcher/attrs.h"

namespace mezzo {

struct MatmulAttrs {
  bool transpose_a = false;
  bool transpose_b = false;
  bool f32_result = false;  // an f32 result from 16-bit operands
  static constexpr auto kFields = std::tuple(Field{"transpose_a", &MatmulAttrs::transpose_a},
                                             Field{"transpose_b", &MatmulAttrs::transpose_b},
                                             Field{"f32_result", &MatmulAttrs::f32_result});
  bool operator==(const MatmulAttrs&) const = default;
};

}  // namespace mezzo
