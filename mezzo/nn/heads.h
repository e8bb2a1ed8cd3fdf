// Dividing features among the heads of attention, and putting them together again.
#pragma once

#include <cstdint>

#include "mezzo/core/tensor.h"

namespace mezzo::nn {

// x [b, t, heads * d] as [b, heads, t, d]: head i has the features from i * d on. A view where the
// features of x are dense, as in a part of a linear layer's result. Throws ArgumentError unless x
// has three axes and `heads` divides the last of them.
Tensor split_heads(const Tensor& x, std::int64_t heads);

// The inverse: x [b, heads, t, d] as [b, t, heads * d]. A view of a result of attention().
Tensor merge_heads(const Tensor& x);

}  // namespace mezzo::nn
