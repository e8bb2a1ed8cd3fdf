#include "mezzo/ops/scaling_recipe.h"

#include "mezzo/core/error.h"

namespace mezzo {

const char* name_of(Scaling scaling) {
  switch (scaling) {
    case Scaling::kCurrent: return "current";
    case Scaling::kDelayed: return "delayed";
    case Scaling::kRows: return "rows";
    case Scaling::kMxfp8: return "mxfp8";
  }
  return "";
}

std::optional<Scaling> parse_scaling(std::string_view name) {
  for (const Scaling scaling : kScalings) {
    if (name == name_of(scaling)) return scaling;
  }
  return std::nullopt;
}

std::string scaling_names() {
  std::string names;
  for (const Scaling scaling : kScalings) {
    if (!names.empty()) names += scaling == kScalings.back() ? " and " : ", ";
    names += name_of(scaling);
  }
  return names;
}

ScalingRecipe usual_recipe(Scaling scaling, DType dtype) {
  const DType grad_dtype = scaling == Scaling::kMxfp8 ? dtype : DType::kE5m2;
  return {.scaling = scaling, .dtype = dtype, .grad_dtype = grad_dtype};
}

void check_recipe(const ScalingRecipe& recipe, const char* op) {
  check_arg(is_eight_bit(recipe.dtype) && is_eight_bit(recipe.grad_dtype), op,
            "a recipe rounds to e4m3 or e5m2, this one to ", recipe.dtype, " and ",
            recipe.grad_dtype, ". Choose among them");
  check_arg(recipe.margin >= 0 && recipe.margin < 32, op,
            "the margin must be in [0, 32): ", recipe.margin, ". Use 0");
  check_arg(recipe.history > 0, op, "the history must be positive: ", recipe.history, ". Use 1024");
}

}  // namespace mezzo
