// Operations on the gradients of parameters between backward() and step().
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "mezzo/core/tensor.h"
#include "mezzo/distributed/process_group.h"

namespace mezzo::optim {

// All functions skip parameters without a gradient. A gradient that shares its memory with anything
// (two parameters that were added have the same gradient) is replaced by a copy before it is
// changed. Gradients are f32 or in 16 bits, and all on one device; for others, ArgumentError is
// thrown. In a captured step, clipping is done in each run.

// Multiplies the gradients so that their common Euclidean norm is at most max_norm. Returns the
// norm that they had, computed in f64. If that norm is not finite, no factor can make it so, and
// the gradients stay unchanged. During a capture the norm is not known yet, and NaN is returned.
// Throws ArgumentError unless max_norm > 0. Pascanu et al., "On the difficulty of training
// recurrent neural networks", ICML 2013.
double clip_grad_norm(std::span<const Tensor> params, double max_norm);

// Limits every element of the gradients to [-limit, limit]. Throws ArgumentError unless limit > 0.
void clip_grad_value(std::span<const Tensor> params, double limit);

// Multiplies the gradients by inv_scale and returns the index of the first parameter whose gradient
// is not finite. 16-bit gradients, which 16-bit parameters have, become f32: without the loss scale
// they could underflow again.
std::optional<std::size_t> unscale_grads(std::span<const Tensor> params, double inv_scale);

// Replaces the gradients of all processes of a group by their means, which are f32 whatever the
// gradients' dtype: 16-bit sums would be rounded for every process. Call it after the last
// backward() of a step and before anything reads gradients. Then all processes see an overflow in
// one, skip the same steps and have the same scale. In `reduce_dtype` (f32, bf16 or f16) gradients
// cross the network: 16 bits halve the bytes and round twice (gradient_bucket.h). Throws
// ArgumentError in every process if some have no gradient of a parameter, or one of another layout,
// naming the first. In a captured step it is done in each run, so the group must exist that long.
void average_gradients(std::span<const Tensor> params, distributed::ProcessGroup& group,
                       DType reduce_dtype = DType::kF32);

// The index of the first parameter whose gradient is not finite; changes nothing.
std::optional<std::size_t> first_nonfinite_grad(std::span<const Tensor> params);

}  // namespace mezzo::optim
