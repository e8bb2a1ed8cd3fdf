// Sorting along an axis.
#pragma once

#include "mezzo/core/tensor.h"

namespace mezzo {

struct Sorted {
  Tensor values;
  Tensor indices;  // i64: where the values were along the axis
};

// The elements of x in ascending or descending order along an axis. Equal elements keep their
// order, in both directions. NaN counts as the largest, as in PyTorch. x may have any dtype, but
// devices tell integers apart only up to 2^53. The gradient of a value goes to the element that it
// came from. Throws ArgumentError for an axis that x does not have.
Sorted sort(const Tensor& x, std::int64_t axis = -1, bool descending = false);

// The indices of sort() alone.
Tensor argsort(const Tensor& x, std::int64_t axis = -1, bool descending = false);

// The k largest elements along an axis, the largest first, or the k smallest ones. Of equal
// elements the first count. Throws ArgumentError unless 0 <= k <= the size of the axis.
Sorted topk(const Tensor& x, std::int64_t k, std::int64_t axis = -1, bool largest = true);

}  // namespace mezzo
