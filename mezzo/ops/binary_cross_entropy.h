// Binary cross entropy: the loss of yes-or-no answers.
#pragma once

#include "mezzo/core/tensor.h"
#include "mezzo/ops/losses.h"

namespace mezzo {

// -(t log p + (1 - t) log(1 - p)) of probabilities p = sigmoid(logits), where both logarithms are
// computed from the logits and so are right however large those are. Logits and targets, which lie
// in [0, 1], have one shape; the f32 loss (f64 from f64) is averaged, summed, or as it is for
// kNone. Throws ArgumentError if the shapes differ.
//
// With `pos_weight`, floating and of a shape that broadcasts to theirs, the first term is
// multiplied by it, as in PyTorch: more than 1 makes what is missed cost more. The mean stays one
// over all elements.
Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& targets,
                                        Reduction reduction = Reduction::kMean,
                                        const Tensor& pos_weight = {});

// The same of probabilities p in [0, 1]; logarithms are at least -100, as in PyTorch, so that the
// loss stays finite. Refused in mixed precision: probabilities near 1 are 1 in 16 bits, and the
// gradient 1 / (1 - p) leaves f16's range. Use the form with logits there.
Tensor binary_cross_entropy(const Tensor& probabilities, const Tensor& targets,
                            Reduction reduction = Reduction::kMean);

}  // namespace mezzo
