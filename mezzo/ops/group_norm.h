// Group normalization.
//
// Wu and He, "Group Normalization", ECCV 2018. With a group for each channel it is instance
// normalization: Ulyanov, Vedaldi and Lempitsky, "Instance Normalization: The Missing Ingredient
// for Fast Stylization", 2016.
#pragma once

#include "mezzo/core/tensor.h"

namespace mezzo {

// (x - mean) / sqrt(var + eps) * weight + bias. The mean and the biased variance are taken over the
// pixels of c / groups neighbouring channels, separately for each sample. weight and bias are per
// channel.
//
// x: [n, c] or [n, c, h, w] in f32 or 16 bits; the result has its shape and dtype, and is
// channels-last if it has four dimensions. weight and bias: [c] and f32 (f64 for f64 x). They may
// be 16-bit, and are widened before the computation; undefined ones stand for 1 and 0. A group
// whose variance is not finite becomes NaN, as in batch_norm(). Throws ArgumentError for other
// shapes and dtypes, unless `groups` divides the channels, and if there is nothing to normalise.
Tensor group_norm(const Tensor& x, std::int64_t groups, const Tensor& weight = Tensor(),
                  const Tensor& bias = Tensor(), double eps = 1e-5);

}  // namespace mezzo
