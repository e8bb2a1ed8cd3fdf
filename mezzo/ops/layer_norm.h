// Layer normalization.
//
// Ba, Kiros and Hinton, "Layer normalization", 2016.
#pragma once

#include "mezzo/core/tensor.h"

namespace mezzo {

// (x - mean) / sqrt(var + eps) * weight + bias. The mean and the biased variance are taken over the
// last axes, whose sizes are `normalized_shape`.
//
// x: [..., normalized_shape] in f32 or 16 bits; the result has its shape and dtype and is
// row-major. weight and bias: [normalized_shape] and f32 (f64 for f64 x). They may be 16-bit, and
// are widened before the computation; undefined ones stand for 1 and 0. A row whose variance is not
// finite becomes NaN, as in batch_norm(). Throws ArgumentError for other shapes and dtypes, and if
// there is nothing to normalise.
Tensor layer_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight = Tensor(),
                  const Tensor& bias = Tensor(), double eps = 1e-5);

}  // namespace mezzo
