#include "mezzo/numbers/overflow_cause.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "mezzo/core/dtype.h"
#include "mezzo/core/error.h"
#include "mezzo/numbers/call_histogram.h"

namespace mezzo::numbers {
namespace {

// Operations that have no finite value for some finite inputs, and what to do about it.
struct Pole {
  std::string_view op;
  std::string_view advice;
};
constexpr std::array kPoles{
    Pole{"div",
         "The divisor is or comes close to 0: add a small number to it, or divide where it "
         "is larger"},
    Pole{"log", "The logarithm of 0 is infinite: use log1p() or log_softmax(), or clamp its input"},
    Pole{"sqrt", "The gradient of sqrt is infinite at 0: add a small number before the root"},
    Pole{"rsqrt", "1 / sqrt is infinite at 0: add a small number before the root"},
    Pole{"pow", "A negative power is infinite at 0: add a small number to its base"},
    Pole{"norm", "The gradient of a norm has no value at 0: add a small number before the root"},
    Pole{"softmax", "Every score of a row is masked: let each row keep at least one"},
    Pole{"log_softmax", "Every score of a row is masked: let each row keep at least one"},
    Pole{"attention", "Every score of a row is masked: let each row keep at least one"},
};

// The pole of an operation or, in a backward pass, of the one that is differentiated.
const Pole* pole_of(const CallId& id) {
  const std::string_view forward =
      id.is_backward() ? std::string_view(id.gradient_of).substr(0, id.gradient_of.find('#'))
                       : std::string_view(id.op);
  const auto found = std::ranges::find(kPoles, forward, &Pole::op);
  return found != kPoles.end() ? &*found : nullptr;
}

double largest_input(const TracedStepCall& call) {
  double largest = 0;
  for (const Operand& input : call.inputs) {
    largest = std::max(largest, input.range.largest_magnitude());
  }
  return largest;
}

bool has_zero_input(const TracedStepCall& call) {
  return std::ranges::any_of(call.inputs,
                             [](const Operand& input) { return input.range.zeros > 0; });
}

const Operand& bad_output(const TracedStepCall& call) {
  return *std::ranges::find_if(call.outputs,
                               [](const Operand& out) { return !out.range.all_finite(); });
}

const Operand* bad_input(const TracedStepCall& call) {
  const auto found = std::ranges::find_if(
      call.inputs, [](const Operand& input) { return !input.range.all_finite(); });
  return found != call.inputs.end() ? &*found : nullptr;
}

// What an operand is, its range, and what of it is not finite.
std::string describe(const Operand& operand, const std::vector<TracedStepCall>& calls) {
  const std::string bad = operand.range.text_of_bad();
  return concat(source_text(operand, calls), ", ", name_of(operand.dtype), operand.shape, " ",
                operand.range.text(), bad.empty() ? "" : concat(", of which ", bad));
}

std::string describe(const TracedStepCall& call, const std::vector<TracedStepCall>& calls) {
  const Operand& output = bad_output(call);
  std::string text = concat(output.range.text_of_bad(), " in ", name_of(output.dtype));
  const char* joint = ", from ";
  for (const Operand& input : call.inputs) {
    if (!is_floating(input.dtype)) continue;
    text += concat(joint, describe(input, calls));
    joint = "; and ";
  }
  return text;
}

// A value this large in a batch or a result says that inputs are not normalised or weights have
// grown: f16 ends at 65504, and sums of products of such numbers are beyond it soon.
constexpr double kLarge = 1e4;

const Operand* large_batch(const TracedStepCall& call) {
  const auto found = std::ranges::find_if(call.inputs, [](const Operand& input) {
    return input.source == Source::kBatch && input.range.largest_magnitude() > kLarge;
  });
  return found != call.inputs.end() ? &*found : nullptr;
}

// `--keep-f32 layer1.0` keeps a whole module; a call of the network itself is named by its
// operation.
std::string keep_text(const CallId& id) {
  const std::string name = name_to_keep(id);
  if (name.empty()) return "Keep what reads it in f32, or use bf16, which has the range of f32";
  return concat("Keep it in f32 (--keep-f32 ", name, "), or use bf16, which has the range of f32");
}

OverflowCause from_outside(const Operand& input) {
  switch (input.source) {
    case Source::kBatch:
      return {.kind = OverflowKind::kBatch,
              .advice = concat("The batch itself is bad: ", input.name,
                               " of it has such elements. Look for it in the data")};
    case Source::kParameter:
      return {.kind = OverflowKind::kWeight,
              .advice = concat(
                  input.name,
                  " was like that before the step: load sound weights; if an update has made it "
                  "so, check gradients before updates (TrainStepOptions::check_gradients)")};
    case Source::kCall:
    case Source::kOther: break;
  }
  return {.kind = OverflowKind::kOutside,
          .advice =
              "It comes from outside of the step, such as a mask: every row must keep a finite "
              "element, and 0 times infinity is NaN"};
}

OverflowCause from_batch(const Operand& input) {
  return {
      .kind = OverflowKind::kBatch,
      .advice = concat(
          input.name,
          " of the batch is far out of the usual range: normalise it, or look for it in the data")};
}

OverflowCause from_growth(const StepFacts& facts) {
  return {.kind = OverflowKind::kGrownWeights,
          .advice = concat("The largest element of ", facts.grown, " has grown from ",
                           short_text(facts.grown_from), " to ", short_text(facts.grown_to),
                           " since the beginning: lower the learning rate (--lr), warm it up "
                           "(--warmup-steps) or clip gradients (--clip)")};
}

OverflowCause from_scale(const StepFacts& facts) {
  return {.kind = OverflowKind::kLossScale,
          .advice = concat(
              "Gradients times the loss scale ", short_text(facts.scale), " leave its range: ",
              facts.is_dynamic
                  ? "a dynamic scale shrinks by itself, and this is no fault unless it recurs"
                  : "use a smaller one (--loss-scale), or a dynamic one")};
}

OverflowCause from_pole(const Pole& pole) {
  return {.kind = OverflowKind::kUndefined, .advice = std::string(pole.advice)};
}

OverflowCause from_f32_range() {
  return {.kind = OverflowKind::kF32Range,
          .advice =
              "Even f32 ends at 3.4e+38: look at where its inputs become large, in the step's "
              "calls before it"};
}

OverflowCause without_numbers(const TracedStepCall& call, const StepFacts& facts) {
  if (const Operand* input = bad_input(call)) return from_outside(*input);
  const Operand& output = bad_output(call);
  const Pole* pole = pole_of(call.id);
  // Without a large input the value itself does not exist; NaN never comes from size alone.
  const bool is_at_pole = pole != nullptr && (output.range.nans > 0 || has_zero_input(call) ||
                                              largest_input(call) < kLarge);
  if (is_at_pole && (output.range.infinities == 0 || has_zero_input(call))) return from_pole(*pole);
  if (const Operand* input = large_batch(call)) return from_batch(*input);
  if (!facts.grown.empty()) return from_growth(facts);
  if (is_lower(output.dtype)) {
    if (call.id.is_backward() && facts.scale > 1) return from_scale(facts);
    return {.kind = OverflowKind::kRange,
            .advice = concat("The largest number of ", name_of(output.dtype), " is ",
                             short_text(max_of(output.dtype)), ". ", keep_text(call.id))};
  }
  if (call.id.is_backward() && facts.scale > 1) return from_scale(facts);
  return pole != nullptr ? from_pole(*pole) : from_f32_range();
}

}  // namespace

std::string source_text(const Operand& operand, const std::vector<TracedStepCall>& calls) {
  switch (operand.source) {
    case Source::kCall: return concat("`", calls[operand.call].id.text(), "`");
    case Source::kParameter: return concat("the parameter ", operand.name);
    case Source::kBatch: return concat(operand.name, " of the batch");
    case Source::kOther: break;
  }
  return "a tensor from outside of the step";
}

OverflowCause cause_of(const TracedStepCall& call, const std::vector<TracedStepCall>& calls,
                       const StepFacts& facts) {
  OverflowCause cause = without_numbers(call, facts);
  cause.what = describe(call, calls);
  return cause;
}

}  // namespace mezzo::numbers
