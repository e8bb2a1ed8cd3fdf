// Functions with a user-defined gradient, and control of the precision of both passes.
#pragma once

#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <vector>

#include "mezzo/core/tensor.h"

namespace mezzo::amp {

// Carries data of one call of a custom function from its forward pass to its backward pass.
class FunctionContext {
 public:
  // Keeps these tensors for the backward pass; a second call adds to them. They must not be changed
  // in place before that pass. Undefined ones stay undefined.
  void save(std::span<const Tensor> tensors);
  void save(std::initializer_list<Tensor> tensors) {
    save(std::span<const Tensor>(tensors.begin(), tensors.size()));
  }
  // The saved tensors, in order.
  const std::vector<Tensor>& saved() const { return saved_; }
  // Whether the gradient of that input is needed; false beyond the last input.
  bool needs(std::size_t input) const { return input < needs_.size() && needs_[input]; }

 private:
  friend class CustomFunction;
  friend struct CustomCall;

  std::vector<Tensor> saved_;
  std::vector<bool> needs_;
};

struct CustomFunctionOptions {
  // In a mixed-precision region, inputs in f32 and lower precisions are cast to that dtype, and
  // forward and backward pass run without a region, in the dtypes of their inputs. Outside of
  // regions it has no effect. Empty: the forward pass runs in the caller's region.
  std::optional<DType> cast_inputs{};
};

// A counterpart of PyTorch's autograd.Function with custom_fwd and custom_bwd:
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
// The forward pass gets the inputs and returns one to four floating-point results. Nothing in it is
// recorded, so only the inputs have gradients. The backward pass gets the gradients of all results,
// zeros where none arrived, and returns one for each input; those that are not needed may be
// undefined. It runs in the region of the forward pass, or in none if there was none, wherever
// backward() is called and on any thread.
//
// Gradients of gradients are derived from the computation in the backward pass, with respect to
// saved inputs and results. If other tensors were saved, they would be wrong, and are refused.
//
// A step that calls it can be captured. Both passes then run only during the capture, and must
// follow the rules for steps in docs/graph.md.
class CustomFunction {
 public:
  using Tensors = std::vector<Tensor>;
  using Pass = std::function<Tensors(FunctionContext& context, std::span<const Tensor> tensors)>;

  // Throws ArgumentError for an empty function and unless cast_inputs is f32 or a lower precision.
  CustomFunction(Pass forward, Pass backward, const CustomFunctionOptions& options = {});

  // Throws ArgumentError for too many results or none, for undefined or integer results, and, in
  // the backward pass, if the number or shapes of the gradients differ from those of the inputs.
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
