#include "mezzo/tune/choice.h"

#include "mezzo/core/error.h"

namespace mezzo::tune {

std::string Choice::text() const { return concat(dtype, exact ? " by direct sums" : ""); }

std::vector<Choice> choices_of(const StepOperation& operation, std::span<const DType> candidates) {
  std::vector<Choice> choices{{.dtype = DType::kF32}};
  if (operation.has_exact_form()) choices.push_back({.dtype = DType::kF32, .exact = true});
  for (const DType dtype : candidates) {
    if (is_eight_bit(dtype) && operation.can_have_eight_bits()) choices.push_back({.dtype = dtype});
    if (!is_lower(dtype)) continue;
    if (operation.op->precision.of(dtype) == PrecisionClass::kRefuse) continue;
    choices.push_back({.dtype = dtype});
  }
  return choices;
}

amp::PrecisionPlan plan_of(std::span<const StepOperation> operations,
                           std::span<const Choice> choices, Scaling scaling) {
  amp::PrecisionPlan plan{.scaling = scaling};
  for (std::size_t i = 0; i < operations.size(); ++i) {
    plan.rows.push_back({.module = operations[i].module,
                         .op = operations[i].op->name,
                         .dtype = choices[i].dtype,
                         .exact = choices[i].exact});
  }
  return plan;
}

}  // namespace mezzo::tune
