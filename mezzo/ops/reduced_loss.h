// The reduction of element-wise losses.
#pragma once

#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/losses.h"
#include "mezzo/ops/reduce.h"

namespace mezzo {

// Reduces in f32 even at O3, which otherwise sums in 16 bits, because this is part of the loss.
// Throws ArgumentError naming `op` for a mean over no elements.
inline Tensor reduced_loss(const char* op, const Tensor& losses, Reduction reduction) {
  if (reduction == Reduction::kNone) return losses;
  check_arg(losses.numel() > 0 || reduction == Reduction::kSum, op,
            "there is nothing to average: the shape is ", losses.shape(),
            ". Leave it out, or use Reduction::kSum");
  const WithoutPrecisionHook outside;
  return reduction == Reduction::kSum ? sum(losses) : mean(losses);
}

}  // namespace mezzo
