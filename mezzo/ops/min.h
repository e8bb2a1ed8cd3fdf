// The smallest elements; the largest ones are in reduce.h and indexing.h.
#pragma once

#include "mezzo/core/tensor.h"

namespace mezzo {

// The smallest element over `axes` (negative ones count from the end; if none are given, over all);
// NaN if there is one. With keepdim the reduced axes stay with size 1. x may have any dtype, which
// the result has, too. The gradient is shared equally by the elements that equal it. Throws
// ArgumentError if there are no elements.
Tensor min(const Tensor& x, const Shape& axes = {}, bool keepdim = false);

// The i64 position of the smallest element along `axis`, which is removed from the shape. Of equal
// elements the first counts, and NaN counts as the smallest, as in PyTorch. No gradient. Throws
// ArgumentError if the axis is empty.
Tensor argmin(const Tensor& x, std::int64_t axis = -1);

}  // namespace mezzo
