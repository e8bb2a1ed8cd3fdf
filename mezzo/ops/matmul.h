// Matrix products.
#pragma once

#include "mezzo/core/tensor.h"

namespace mezzo {

struct MatmulOptions {
  bool transpose_a = false;  // transpose the last two axes of a
  bool transpose_b = false;
  bool f32_result = false;  // an f32 result from 16-bit operands
};

// The matrix products of a [..., m, k] and b [..., k, n]: [..., m, n]. Leading dimensions
// broadcast. An `a` of rank 1 is a row, a `b` of rank 1 a column; the additional axis of size 1 is
// removed from the result, as in numpy. dtypes are promoted; sums are kept in f32 (f64 for f64, and
// for integers, which are exact up to 2^53). Throws ArgumentError if inner sizes differ.
Tensor matmul(const Tensor& a, const Tensor& b, const MatmulOptions& options = {});

// x [..., in] times the transpose of weight [out, in], plus bias [out] if it is defined: [...,
// out], in the common dtype of x and weight (see promote()). Sums are kept as in matmul(). The bias
// is added to these sums and may have any floating dtype, whatever the dtype of x.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = Tensor());

}  // namespace mezzo
