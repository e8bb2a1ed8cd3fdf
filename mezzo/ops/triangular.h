// Triangles of matrices.
#pragma once

#include "mezzo/core/tensor.h"

namespace mezzo {

// The lower triangle of the matrices x [..., m, n], of any dtype: 0 where the column is greater
// than the row plus `diagonal`, whatever was there. Throws ArgumentError for less than two axes.
Tensor tril(const Tensor& x, std::int64_t diagonal = 0);

// The upper triangle: 0 where the column is less than the row plus `diagonal`.
Tensor triu(const Tensor& x, std::int64_t diagonal = 0);

}  // namespace mezzo
