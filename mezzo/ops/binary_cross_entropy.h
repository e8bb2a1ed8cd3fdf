// Binary cross entropy: the loss of yes-or-no answers.
#pragma once

#include "mezzo/core/tensor.h"
#include "mezzo/ops/losses.h"

namespace mezzo {

// -(t log p + (1 - t) log(1 - p)) of probabilities p = sigmoid(logits). Both logarithms are
// computed from the logits and so are accurate for logits of any size. Logits and targets, which
// lie in [0, 1], have one shape. The f32 loss (f64 from f64) is averaged, summed, or returned for
// each element with kNone. Throws ArgumentError if the shapes differ.
//
// With `pos_weight`, floating and of a shape that broadcasts to theirs, the first term is
// multiplied by it, as in PyTorch: above 1, it makes missed positives cost more. The mean is still
// over all elements.
Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& targets,
                                        Reduction reduction = Reduction::kMean,
                                        const Tensor& pos_weight = {});

// Binary cross entropy of probabilities p in [0, 1]. Logarithms are at least -100, as in PyTorch,
// so that the loss stays finite. Refused in mixed precision: probabilities near 1 are 1 in 16 bits,
// and the gradient 1 / (1 - p) overflows a narrow range. Use the form with logits there.
Tensor binary_cross_entropy(const Tensor& probabilities, const Tensor& targets,
                            Reduction reduction = Reduction::kMean);

}  // namespace mezzo
