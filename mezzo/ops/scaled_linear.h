// Products of activations and weights in eight bits, with their gradients.
#pragma once

#include <atomic>
#include <memory>
#include <optional>

#include "mezzo/core/tensor.h"
#include "mezzo/ops/dispatcher/op.h"
#include "mezzo/ops/scaling_recipe.h"

namespace mezzo {

// The scale of one operand of one product under delayed scaling.
struct DelayedScale {
  Tensor scale;    // f32 [1]; 1 before the first step
  Tensor history;  // f32 [history]: largest absolute values; element 0 is the current step's
};

struct ProductScales {
  DelayedScale x, weight, grad;
  // Set where the gradients of the product are computed, but not while they are captured: shared by
  // all products of a network.
  std::shared_ptr<std::atomic<bool>> went_back{};
};

// A product that is to be made in eight bits.
struct ScaledProduct {
  ScalingRecipe recipe{};
  DType dtype = DType::kBf16;                     // of the result
  std::shared_ptr<const ProductScales> scales{};  // kDelayed; null otherwise
  // Whether the histories of the operands take note. It is not whether gradients are recorded: a
  // forward pass that will be computed again records none.
  bool takes_notes = false;
};

// Decides which products have eight bits; implemented by amp. Each thread has its own; null: none.
class ScaledProducts {
 public:
  // Empty for a product in the dtype of its operands.
  virtual std::optional<ScaledProduct> of(const OpDef& op, const Tensor& weight) = 0;

 protected:
  ~ScaledProducts() = default;
};
void set_scaled_products(ScaledProducts* products);

// Whether calls of that operation may have eight bits: linear, matmul and conv2d.
bool has_scaled_form(const OpDef& op);
// Whether a call with these operands and attributes may: one with a matrix for all rows, or of
// single pixels without stride.
bool has_scaled_form(const OpDef& op, Inputs inputs, const Attrs& attrs);

// What ScaledProducts say of a call of `op` with these operands; empty where nobody does, and for
// operands that are not f32 or a lower precision.
std::optional<ScaledProduct> scaled_product_of(const OpDef& op, const Tensor& x,
                                               const Tensor& weight);

// The name of the node that the tape has for it, and of the gradients of its parts.
inline constexpr const char* kScaledLinearName = "scaled_linear";

// linear(x, weight, bias), and the products of its gradients, in eight bits. What is saved for the
// gradient of the weight has eight bits, too. Gradients of gradients are refused with
// UnsupportedError.
Tensor scaled_linear(const Tensor& x, const Tensor& weight, const Tensor& bias,
                     const ScaledProduct& product);

}  // namespace mezzo
