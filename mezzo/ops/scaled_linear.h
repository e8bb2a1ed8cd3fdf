// Products of activations and weights in eight bits, with their gradients.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "mezzo/core/tensor.h"
#include "mezzo/ops/dispatcher/op.h"
#include "mezzo/ops/scaled_attrs.h"

namespace mezzo {

// How scales are found.
enum class Scaling : std::uint8_t {
  kCurrent,  // one for a tensor, from its largest absolute value
  kDelayed,  // one for a tensor, from the largest absolute values of earlier steps
  kRows,     // one for each row, or for each column where a product sums over rows
  kMxfp8,    // a power of two for every 32 elements along the sum
};

inline constexpr std::array kScalings{Scaling::kCurrent, Scaling::kDelayed, Scaling::kRows,
                                      Scaling::kMxfp8};
// `current`, `delayed`, `rows`, `mxfp8`.
const char* name_of(Scaling scaling);
std::optional<Scaling> parse_scaling(std::string_view name);
inline void append_text(std::string& out, Scaling scaling) { out += name_of(scaling); }

// A recipe: which numbers are rounded to which eight bits, and how they are scaled.
struct ScalingRecipe {
  Scaling scaling = Scaling::kCurrent;
  DType dtype = DType::kE4m3;       // of activations and weights
  DType grad_dtype = DType::kE5m2;  // of gradients: they need range more than precision
  // Whether gradients of weights are products in 16 bits. They sum over all examples, and their
  // errors stay in the weights. It costs the memory of activations in 16 bits.
  bool wide_weight_grad = false;
  // kDelayed, with TransformerEngine's names and defaults: scales are the largest number of the
  // dtype / 2^margin / the largest absolute value of `history` steps.
  int margin = 0;
  std::int64_t history = 1024;

  bool operator==(const ScalingRecipe&) const = default;
};

// The recipe with that way of scaling and its usual dtypes: e4m3 for gradients in MXFP8, whose
// blocks need no range of their own, and e5m2 otherwise.
ScalingRecipe usual_recipe(Scaling scaling, DType dtype = DType::kE4m3);

// Throws ArgumentError naming `op` unless dtypes are of eight bits, 0 <= margin < 32 and
// history > 0.
void check_recipe(const ScalingRecipe& recipe, const char* op);

// The scale of one operand of one product under delayed scaling.
struct DelayedScale {
  Tensor scale;    // f32 [1]; 1 before the first step
  Tensor history;  // f32 [history]: largest absolute values; element 0 is the current step's
};

struct ProductScales {
  DelayedScale x, weight, grad;
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
