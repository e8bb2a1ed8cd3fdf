// Norms, variances and what is made of them.
//
// All of them compute 16-bit tensors in f32 or better, in regions of any level, too, and round the
// result once: squares of 256 leave f16's range, those of 0.0002 are 0 in it, and sums in bf16 stay
// where they are once they are 256 times a term. The 2-norm squares in f64 on CPUs but in f32 on
// GPUs, where squares of magnitudes above 1.8e19 are infinite and those below 1e-23 vanish.
#pragma once

#include "mezzo/core/tensor.h"

namespace mezzo {

// The p-norm over `axes` (negative ones count from the end; if none are given, over all):
// sum(|x|^p)^(1/p); for p = infinity the largest |x|, for -infinity the smallest, for 0 the number
// of elements that are not 0. With keepdim the reduced axes stay with size 1. The result has the
// dtype of x; in mixed precision that of p = 2 is f32. The gradient of the 2-norm is 0 where the
// norm is 0, as in PyTorch. Throws ArgumentError for integers and for a p that is NaN.
Tensor norm(const Tensor& x, double p = 2, const Shape& axes = {}, bool keepdim = false);

// x / max(norm(x), eps) with the p-norm along an axis, in f32 inside: eps is 0 in f16. The result
// has the dtype of x.
Tensor normalize(const Tensor& x, double p = 2, std::int64_t axis = 1, double eps = 1e-12);

struct VarianceOptions {
  double correction = 1;  // is subtracted from the number of elements: 0 for the biased variance
  bool keepdim = false;
};

// The variance over `axes`, as in norm(): the sum of the squared distances from the mean, divided
// by the number of elements less `correction`; NaN or infinite if nothing is left of that number.
// In two passes, which a large mean does not spoil. The result has the dtype of x. Throws
// ArgumentError for integers, and if there is nothing to average.
Tensor var(const Tensor& x, const Shape& axes = {}, const VarianceOptions& options = {});

// The standard deviation, the root of var(). Its gradient is 0 where all elements are the same, as
// in PyTorch.
Tensor std(const Tensor& x, const Shape& axes = {}, const VarianceOptions& options = {});

}  // namespace mezzo
