// What is done to the gradients of parameters between backward() and step().
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "mezzo/core/tensor.h"
#include "mezzo/distributed/process_group.h"

namespace mezzo::optim {

// Parameters without a gradient are passed over everywhere. A gradient that shares its memory (two
// parameters that were added have the same one), with whomever, is replaced by a copy before it is
// changed. Gradients are f32, bf16 or f16 and all on one device; for others, ArgumentError is
// thrown. In a captured step, clipping is done in each of its runs.

// Multiplies the gradients so that their common Euclidean norm is at most max_norm, and returns the
// norm they had, computed in f64. If that norm is not finite, no factor makes it so: the gradients
// stay as they are. While a step is captured, the norm is not known yet: NaN. Throws ArgumentError
// unless max_norm > 0.
// Pascanu et al., "On the difficulty of training recurrent neural networks", ICML 2013.
double clip_grad_norm(std::span<const Tensor> params, double max_norm);

// Limits every element of the gradients to [-limit, limit]. Throws ArgumentError unless limit > 0.
void clip_grad_value(std::span<const Tensor> params, double limit);

// Multiplies the gradients by inv_scale and returns the index of the first parameter whose gradient
// is not finite. 16-bit gradients, which 16-bit parameters have, become f32: without the loss scale
// they would underflow, and that is what the scale was for.
std::optional<std::size_t> unscale_grads(std::span<const Tensor> params, double inv_scale);

// Gives all processes of a group the means of their gradients, in f32 whatever dtype those had: in
// 16 bits a sum would be rounded for every process. Belongs behind the last backward() of a step
// and before whatever looks at gradients, so that the overflow that one process had is seen by all,
// and all skip the same steps and have the same scale. Throws ArgumentError, in every process,
// where some have no gradient of a parameter, or one that lies otherwise, naming the first; and for
// gradients that are not in the host's memory. In a captured step it is done in each run, for which
// the group must still be there.
void average_gradients(std::span<const Tensor> params, distributed::ProcessGroup& group);

// The index of the first parameter whose gradient is not finite; changes nothing.
std::optional<std::size_t> first_nonfinite_grad(std::span<const Tensor> params);

}  // namespace mezzo::optim
