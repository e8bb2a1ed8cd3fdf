// Winograd's method (see winograd_plan.h) on tensors that are dense and of the right layout: what
// is compiled once per instruction set.
#pragma once

#include "mezzo/core/tensor.h"
#include "mezzo/kernels/cpu/conv/winograd/winograd_plan.h"

namespace mezzo::kernels::winograd {

// A weight [out, in, 3, 3], or [in, out, 3, 3] if it is turned: f32, bf16 or f16 numbers, of which
// f32 ones are rounded to `dtype` when they are read. It need not be dense, and is read fastest
// channels-last.
struct RoundedWeight {
  Tensor numbers{};
  DType dtype = DType::kF32;
};

// The transformed weight, in the layout of convolution.weight().
void transform_weight(const Convolution& convolution, const RoundedWeight& weight, float* out);

// y = x convolved with the transformed weight, plus bias. x and y: channels-last, f32, bf16 or f16,
// y perhaps some channels of more; bias: [out] in f32, or null. Sums are f32 numbers, in an order
// that depends on `in` alone, rounded once.
void convolve(const Convolution& convolution, const Tensor& x, const float* weight,
              const float* bias, const Tensor& y);

// The same, bit for bit, of a weight that is transformed a part at a time, each thread for outputs
// of its own: for transformed weights that would drive the images out of the caches, or leave them.
void convolve_by_outputs(const Convolution& convolution, const Tensor& x,
                         const RoundedWeight& weight, const float* bias, const Tensor& y);

// out [out, in, 3, 3], f32 and dense, = the gradient by the weight, from that of y and x, both
// channels-last and of one dtype: f32, bf16 or f16. Sums are f32 numbers, in an order that depends
// on the shapes alone.
void gradient_by_weight(const WeightGradient& gradient, const Tensor& grad, const Tensor& x,
                        const Tensor& out);

}  // namespace mezzo::kernels::winograd
