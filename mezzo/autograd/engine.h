// Reverse-mode differentiation over the recorded tape.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "mezzo/core/tensor.h"
#include "mezzo/ops/dispatcher/grad_mode.h"

namespace mezzo {

struct BackwardOptions {
  // Keep the saved tensors, so that backward() can be called again through the same graph.
  bool retain_graph = false;
  // Record the backward pass itself, so that gradients can be differentiated. Implies retain_graph.
  bool create_graph = false;
  // For grad(): where several gradients of a 16-bit leaf are summed, leave the sum in f32, like the
  // leaf's `grad`, instead of rounding it to the leaf's dtype. For sums that will be continued.
  bool f32_sums = false;
};

// Adds the gradients of `outputs`, weighted by `grad_outputs` (an undefined one stands for 1 and
// needs a scalar output), to the `grad` of every leaf that still requires one. A gradient has the
// leaf's dtype. The gradients of a 16-bit leaf are summed in f32: its `grad` has 16 bits while it
// is a single gradient, and is f32 once another was added, in this pass or a later one, until it is
// cleared. Gradients have their own memory. With create_graph they hold the graph that produced
// them, and so themselves: clear them when they are no longer needed, or use grad(). Only one
// thread at a time may walk a graph. Throws ArgumentError if an output was not recorded, for
// gradients of another shape or of integers, or if the graph was already freed.
void backward(std::span<const Tensor> outputs, std::span<const Tensor> grad_outputs = {},
              BackwardOptions options = {});

// The gradients of `outputs` with respect to `inputs`, without changing any `grad`. They have the
// dtypes of the inputs unless BackwardOptions::f32_sums is set. Those of a 16-bit leaf are summed
// in f32 and rounded once. A tensor that the outputs do not depend on gets an undefined gradient.
std::vector<Tensor> grad(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                         std::span<const Tensor> grad_outputs = {}, BackwardOptions options = {});

// Adds a gradient to the `grad` of a leaf as backward() does, without recording it.
void add_to_grad(const Tensor& leaf, Tensor grad);

// Wraps a function that computes a scalar loss: calling the result gives the loss and its gradients
// with respect to `inputs`.
struct ValueAndGrad {
  Tensor value;
  std::vector<Tensor> grads;
};
std::function<ValueAndGrad()> value_and_grad(std::function<Tensor()> loss,
                                             std::vector<Tensor> inputs);

}  // namespace mezzo
