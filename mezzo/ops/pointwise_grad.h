// Helpers for the gradients of element-wise functions of one tensor.
#pragma once

#include "mezzo/ops/dispatcher/op.h"

namespace mezzo {

inline constexpr PrecisionRule kPartOfBackward{
    .reason = "part of a backward pass, which runs in its forward's dtype"};

// `infer` of a gradient, from the gradient of the result and a second tensor of the same shape.
inline void infer_pointwise_grad(Infer& infer) {
  infer.check_same_dtype(0, 1);
  infer.check(infer.shape(0) == infer.shape(1), "the gradient has shape ", infer.shape(0),
              ", the other input ", infer.shape(1), ". Give both the same shape");
  infer.output_like(1);
}

}  // namespace mezzo
