// What losses of single elements are made into.
#pragma once

#include "mezzo/ops/call.h"
#include "mezzo/ops/losses.h"
#include "mezzo/ops/reduce.h"

namespace mezzo {

// In f32 at O3, too, which has sums in 16 bits: they are a part of the loss.
inline Tensor reduced_loss(const Tensor& losses, Reduction reduction) {
  if (reduction == Reduction::kNone) return losses;
  const WithoutPrecisionHook outside;
  return reduction == Reduction::kSum ? sum(losses) : mean(losses);
}

}  // namespace mezzo
