// What a plan chooses among for an operation.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "mezzo/amp/precision_plan.h"
#include "mezzo/tune/step_calls.h"

namespace mezzo::tune {

// A dtype, and for convolutions in f32 whether their sums are direct: Winograd's method is faster,
// and its errors are larger (ops/exact_sums.h).
struct Choice {
  DType dtype = DType::kF32;
  bool exact = false;

  bool operator==(const Choice&) const = default;
  std::string text() const;  // `bf16`, `f32 by direct sums`
};

// Those of the candidates that an operation may have: f32 first, then f32 by direct sums for a
// convolution, then the 16-bit candidates that it does not refuse, and e4m3 for a product.
std::vector<Choice> choices_of(const StepOperation& operation, std::span<const DType> candidates);

// A plan from the choice for each operation; `scaling` is that of e4m3.
amp::PrecisionPlan plan_of(std::span<const StepOperation> operations,
                           std::span<const Choice> choices, Scaling scaling);

}  // namespace mezzo::tune
