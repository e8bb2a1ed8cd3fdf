// Winograd's method (winograd_plan.h) on dense tensors of the right layout: the part that is
// compiled once per instruction set.
#pragma once

#include "mezzo/core/tensor.h"
#include "mezzo/kernels/cpu/conv/winograd/winograd_plan.h"

namespace mezzo::kernels::winograd {

// A weight [out, in, 3, 3], or [in, out, 3, 3] if it is turned, of f32, bf16 or f16. f32 values are
// rounded to `dtype` when they are read. It need not be dense; channels-last is fastest.
struct RoundedWeight {
  Tensor numbers{};
  DType dtype = DType::kF32;
};

// Writes the transformed weight in the layout of convolution.weight().
void transform_weight(const Convolution& convolution, const RoundedWeight& weight, float* out);

// y = x convolved with the transformed weight, plus bias. x and y are channels-last, f32, bf16 or
// f16; y may be some channels of a larger tensor. bias: [out] in f32, or null. f32 sums run in an
// order that depends on `in` alone, and are rounded once.
void convolve(const Convolution& convolution, const Tensor& x, const float* weight,
              const float* bias, const Tensor& y);

// convolve(), bit for bit, with a weight that is transformed a part at a time, each thread for
// outputs of its own. For transformed weights that would evict the images from the caches, or not
// fit there.
void convolve_by_outputs(const Convolution& convolution, const Tensor& x,
                         const RoundedWeight& weight, const float* bias, const Tensor& y);

// out [out, in, 3, 3], f32 and dense, = the weight gradient, from y's gradient and x, both
// channels-last and of one dtype: f32, bf16 or f16. f32 sums run in an order that depends on the
// shapes alone.
void gradient_by_weight(const WeightGradient& gradient, const Tensor& grad, const Tensor& x,
                        const Tensor& out);

}  // namespace mezzo::kernels::winograd
