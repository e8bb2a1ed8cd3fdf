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
// convolution, then the 16-bit candidates that it does not refuse.
std::vector<Choice> choices_of(const StepOperation& operation, std::span<const DType> candidates);

// A plan from the choice for each operation.
amp::PrecisionPlan plan_of(std::span<const StepOperation> operations,
                           std::span<const Choice> choices);
// The plan in which one operation has that choice, and all others are in f32.
amp::PrecisionPlan plan_of_one(std::span<const StepOperation> operations, std::size_t one,
                               const Choice& choice);

}  // namespace mezzo::tune
