// Dropout.
#pragma once

#include "mezzo/core/random.h"
#include "mezzo/core/tensor.h"

namespace mezzo {

// In training each element is 0 with probability p, else x / (1 - p) (Srivastava et al., "Dropout:
// a simple way to prevent neural networks from overfitting", JMLR 15, 2014). With p = 1 all are 0,
// whatever x is. Otherwise, or for p = 0, the result is x itself. The mask is a function of the
// generator's position and of the elements' order in memory, whatever the number of threads. It is
// drawn again in the backward pass instead of being stored. Throws ArgumentError unless p is in [0,
// 1].
Tensor dropout(const Tensor& x, double p, bool training = true,
               Generator& generator = default_generator());

}  // namespace mezzo
