// Reverse-mode differentiation over the recorded tape.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "mezzo/core/tensor.h"
#include "mezzo/ops/grad_mode.h"

namespace mezzo {

struct BackwardOptions {
  // Keep what was saved, so that backward() can be called again through the same graph.
  bool retain_graph = false;
  // Record the backward pass itself, so that gradients can be differentiated. Implies retain_graph.
  bool create_graph = false;
};

// Adds the gradients of `outputs`, weighted by `grad_outputs` (an undefined one stands for 1 and
// needs a scalar output), to the `grad` of every leaf that still requires one. Gradients have the
// leaf's dtype, and memory of their own; with create_graph they hold the graph that made them, and
// with it themselves: clear them when they are not needed any more, or use grad().
// A graph is walked by one thread at a time. Throws ArgumentError if an output was not recorded,
// for gradients of another shape or of integers, or if the graph was already freed.
void backward(std::span<const Tensor> outputs, std::span<const Tensor> grad_outputs = {},
              BackwardOptions options = {});

// The gradients of `outputs` with respect to `inputs`, without touching any `grad`. A tensor that
// the outputs do not depend on gets an undefined gradient.
std::vector<Tensor> grad(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                         std::span<const Tensor> grad_outputs = {}, BackwardOptions options = {});

// Wraps a function that computes a scalar loss: calling the result gives the loss and its gradients
// with respect to `inputs`.
struct ValueAndGrad {
  Tensor value;
  std::vector<Tensor> grads;
};
std::function<ValueAndGrad()> value_and_grad(std::function<Tensor()> loss,
                                             std::vector<Tensor> inputs);

}  // namespace mezzo
