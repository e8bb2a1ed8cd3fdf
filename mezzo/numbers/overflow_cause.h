// Says in words how a call's result came to be infinite or NaN, and what to do.
#pragma once

#include <string>
#include <vector>

#include "mezzo/numbers/call_trace.h"

namespace mezzo::numbers {

// What is known of a step besides its calls.
struct StepFacts {
  double scale = 1;         // of the loss
  bool is_dynamic = false;  // the scale changes by itself
  // The parameter whose largest element has grown most since the beginning; empty if none has
  // grown a hundredfold.
  std::string grown{};
  double grown_from = 0;
  double grown_to = 0;
};

enum class OverflowKind : std::uint8_t {
  kBatch,         // the batch was not finite, or far out of the usual range
  kWeight,        // a parameter was not finite
  kOutside,       // something else from outside of the step was not finite
  kGrownWeights,  // weights have grown beyond reason
  kLossScale,     // gradients times the loss scale left the range of a 16-bit dtype
  kRange,         // the result left the range of its dtype, which f32 or bf16 would hold
  kF32Range,      // the result left the range of f32
  kUndefined,     // the operation has no finite value for some input: 0 / 0, log(0), sqrt(-1)
};

struct OverflowCause {
  OverflowKind kind = OverflowKind::kRange;
  std::string what{};    // the numbers: `3 of 1024 results are infinite, from inputs between ...`
  std::string advice{};  // what to do, as a sentence
};

OverflowCause cause_of(const TracedStepCall& call, const std::vector<TracedStepCall>& calls,
                       const StepFacts& facts);

// `conv1: conv2d`, `the parameter fc.weight`, `input 0 of the batch`, or for anything else `a
// tensor from outside of the step`.
std::string source_text(const Operand& operand, const std::vector<TracedStepCall>& calls);

}  // namespace mezzo::numbers
