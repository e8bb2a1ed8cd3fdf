// Functions with a gradient of the user's own, and a say over the precision of both passes.
#pragma once

#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <vector>

#include "mezzo/core/tensor.h"

namespace mezzo::amp {

// What one call of a custom function hands from its forward pass to its backward pass.
class FunctionContext {
 public:
  // Keeps these for the backward pass; a second call adds to them. They must not be changed in
  // place before it. Undefined ones stay undefined.
  void save(std::span<const Tensor> tensors);
  void save(std::initializer_list<Tensor> tensors) {
    save(std::span<const Tensor>(tensors.begin(), tensors.size()));
  }
  // What was saved, in that order.
  const std::vector<Tensor>& saved() const { return saved_; }
  // Whether anybody wants the gradient of that input. Behind the last one: false.
  bool needs(std::size_t input) const { return input < needs_.size() && needs_[input]; }

 private:
  friend class CustomFunction;
  friend struct CustomCall;

  std::vector<Tensor> saved_;
  std::vector<bool> needs_;
};

struct CustomFunctionOptions {
  // In a mixed-precision region, inputs in f32, bf16 and f16 are cast to that dtype, and forward
  // and backward pass run without a region, in the dtypes of what they get. Outside of regions it
  // does nothing. Empty: the forward pass runs in the caller's region.
  std::optional<DType> cast_inputs{};
};

// PyTorch's autograd.Function, with custom_fwd and custom_bwd around it:
//
//   const amp::CustomFunction clipped_exp(
//       [](amp::FunctionContext& context, std::span<const Tensor> in) {
//         const Tensor y = exp(in[0]);
//         context.save({y});
//         return std::vector{y};
//       },
//       [](amp::FunctionContext& context, std::span<const Tensor> grads) {
//         return std::vector{grads[0] * context.saved()[0]};
//       },
//       {.cast_inputs = DType::kF32});
//   const Tensor y = clipped_exp({x})[0];
//
// The forward pass gets the inputs and gives one to four floating-point results; nothing is
// recorded in it, so nothing but the inputs has a gradient. The backward pass gets the gradients of
// all results, zeros where none arrived, and gives one for each input; those that nobody needs may
// be undefined. It runs in the region in which the forward pass ran, or in none if that ran in
// none, on whatever thread and wherever backward() is called.
//
// Gradients of gradients are those of what the backward pass computes, from saved inputs and
// results. If it saved something else they would be wrong, and are refused.
//
// A step that calls it can be captured; both passes are then run at the capture alone, and must
// keep to what docs/graph.md says of steps.
class CustomFunction {
 public:
  using Tensors = std::vector<Tensor>;
  using Pass = std::function<Tensors(FunctionContext& context, std::span<const Tensor> tensors)>;

  // Throws ArgumentError for an empty function and unless cast_inputs is f32, bf16 or f16.
  CustomFunction(Pass forward, Pass backward, const CustomFunctionOptions& options = {});

  // Throws ArgumentError for results that are too many, none, undefined or integers, and, in the
  // backward pass, for gradients of another number or of other shapes than the inputs.
  Tensors operator()(std::span<const Tensor> inputs) const;
  Tensors operator()(std::initializer_list<Tensor> inputs) const {
    return (*this)(std::span<const Tensor>(inputs.begin(), inputs.size()));
  }

 private:
  Tensors run_forward(FunctionContext& context, std::span<const Tensor> inputs) const;

  Pass forward_;
  Pass backward_;
  CustomFunctionOptions options_;
};

}  // namespace mezzo::amp
