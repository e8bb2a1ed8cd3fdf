// Elements that indices choose, and sums at places that indices choose.
#pragma once

#include "mezzo/core/tensor.h"

namespace mezzo {

// The elements of x that `index` names along `axis`: result[i][j] = x[index[i][j]][j] for axis 0.
// x may have any dtype. index: integers, with the rank of x, and no larger than x along the other
// axes. The result has the shape of index. Throws ArgumentError for other shapes and for indices
// outside [0, size of the axis), naming one of them.
Tensor gather(const Tensor& x, std::int64_t axis, const Tensor& index);

// x plus each element of `source` at the place that `index` names along `axis`:
// result[index[i][j]][j] += source[i][j] for axis 0. index and source have one shape, which is no
// larger than that of x along the other axes; index has integers. The sums of 16-bit tensors are
// f32 and rounded once, in the order of the indices: the bits do not depend on the number of
// threads. Integers wrap around; on devices their sums are exact only up to 2^53. Dtypes of x and
// source are promoted. Throws ArgumentError as gather() does.
Tensor scatter_add(const Tensor& x, std::int64_t axis, const Tensor& index, const Tensor& source);

// The slices of x that `index`, integers [n], names along `axis`, whose size becomes n. x may have
// any dtype. Throws ArgumentError as gather() does, with the place in the result of the slice that
// an index outside of the axis would give.
Tensor index_select(const Tensor& x, std::int64_t axis, const Tensor& index);

}  // namespace mezzo
