// Operations on class numbers and row indices: one-hot encoding, argmax and embedding.
#pragma once

#include "mezzo/core/tensor.h"

namespace mezzo {

// Converts i32 indices, which all operations accept, to i64, which kernels read; returns others as
// they are.
Tensor as_indices(const Tensor& indices);

// 1 at [..., labels[...]] and 0 elsewhere: integer labels of any shape of rank at most 5 give that
// shape with `classes` appended. Throws ArgumentError for labels outside [0, classes). No gradient.
Tensor one_hot(const Tensor& labels, std::int64_t classes, DType dtype = DType::kF32);

// The i64 position of the largest element along `axis`, which is removed from the shape. Of equal
// elements the first counts, and NaN counts as the largest. No gradient. Throws ArgumentError if
// the axis is empty.
Tensor argmax(const Tensor& x, std::int64_t axis = -1);

// The number of rows of `scores` [n, c] whose largest element is at the row's label; labels:
// integers [n].
std::int64_t count_correct(const Tensor& scores, const Tensor& labels);

// Row indices[...] of `weight` [v, d] for every index. Integer indices of any shape of rank at most
// 5 give that shape with d appended, in the dtype of weight. Throws ArgumentError for indices
// outside [0, v), naming the first.
Tensor embedding(const Tensor& weight, const Tensor& indices);

}  // namespace mezzo
