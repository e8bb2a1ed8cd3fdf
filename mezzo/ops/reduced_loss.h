// What losses of single elements are made into.
#pragma once

#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/losses.h"
#include "mezzo/ops/reduce.h"

namespace mezzo {

// In f32 at O3, too, which has sums in 16 bits: they are a part of the loss. Throws ArgumentError
// naming `op` for a mean of none.
inline Tensor reduced_loss(const char* op, const Tensor& losses, Reduction reduction) {
  if (reduction == Reduction::kNone) return losses;
  check_arg(losses.numel() > 0 || reduction == Reduction::kSum, op,
            "there is nothing to average: the shape is ", losses.shape(),
            ". Leave it out, or use Reduction::kSum");
  const WithoutPrecisionHook outside;
  return reduction == Reduction::kSum ? sum(losses) : mean(losses);
}

}  // namespace mezzo
