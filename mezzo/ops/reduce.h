// Reductions over some or all axes.
#pragma once

#include <optional>

#include "mezzo/core/tensor.h"

namespace mezzo {

// The sum over `axes` (negative ones count from the end; if none are given, over all). With keepdim
// the reduced axes stay with size 1. The result has the given dtype, else that of x, or i64 if x
// has integers. In any case 16-bit elements are summed in f32 or better, and integers in i64; only
// the result is rounded.
Tensor sum(const Tensor& x, const Shape& axes = {}, bool keepdim = false,
           std::optional<DType> dtype = std::nullopt);

// The mean over `axes`, like sum(). Throws ArgumentError if there is nothing to average.
Tensor mean(const Tensor& x, const Shape& axes = {}, bool keepdim = false);

// The largest element over `axes`. The gradient is shared equally by the elements that equal it.
// Throws ArgumentError if there are no elements.
Tensor max(const Tensor& x, const Shape& axes = {}, bool keepdim = false);

// The gradient of max: grad shared equally by the elements of x that equal y, and 0 elsewhere. grad
// and y have the shape of x with size 1 along the reduced axes, and its dtype.
Tensor max_grad(const Tensor& grad, const Tensor& x, const Tensor& y);

}  // namespace mezzo
