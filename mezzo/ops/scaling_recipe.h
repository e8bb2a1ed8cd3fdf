// Recipes for products in eight bits: what is rounded to which dtype, and how scales are found.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "mezzo/core/dtype.h"

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
// `current, delayed, rows and mxfp8`.
std::string scaling_names();
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

}  // namespace mezzo
