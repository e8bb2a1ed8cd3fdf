#include "mezzo/numbers/call_trace.h"

#include <algorithm>

#include "mezzo/core/error.h"

namespace mezzo::numbers {
namespace {

bool is_bad(const Operand& operand) { return !operand.range.all_finite(); }

}  // namespace

bool TracedStepCall::has_bad_output() const { return std::ranges::any_of(outputs, is_bad); }
bool TracedStepCall::has_bad_input() const { return std::ranges::any_of(inputs, is_bad); }

void CallTrace::clear() {
  calls_.clear();
  sources_.clear();
}

Operand CallTrace::operand(const Tensor& tensor) {
  const Origin origin = sources_.of(tensor);
  return {.dtype = tensor.dtype(),
          .shape = concat(tensor.shape()),
          .range = range_of(tensor),
          .source = origin.source,
          .call = origin.call,
          .name = origin.name};
}

void CallTrace::add(const amp::ObservedStepCall& call) {
  if (call.op.view != nullptr) {
    sources_.add_view(*call.inputs[0], call.outputs[0]);
    return;
  }
  TracedStepCall traced{.id = call.results[0].call};
  if (!call.joined.empty()) {
    traced.id = call.joined.front();
    for (const CallId& more : call.joined.subspan(1)) traced.and_then += more.text() + ", ";
    traced.and_then += call.results[0].call.text();
  }
  for (const Tensor* input : call.inputs) {
    if (!input->defined()) continue;
    // The elements that a change has replaced are those of its output now.
    if (call.is_change && input->storage() == call.outputs[0].storage()) continue;
    traced.inputs.push_back(operand(*input));
  }
  for (std::size_t i = 0; i < call.outputs.size(); ++i) {
    const Tensor& output = call.outputs[i];
    if (!output.defined()) continue;
    sources_.add_result(output, calls_.size(), i);
    traced.outputs.push_back(operand(output));
  }
  calls_.push_back(std::move(traced));
}

std::optional<std::size_t> CallTrace::origin() const {
  // Backwards, a bad result counts if nobody reads it, or if a call that counts does.
  std::vector<bool> is_read(calls_.size(), false);
  std::vector<bool> counts(calls_.size(), false);
  std::optional<std::size_t> first;
  std::optional<std::size_t> first_absorbed;
  for (std::size_t i = calls_.size(); i-- > 0;) {
    const TracedStepCall& call = calls_[i];
    const bool is_bad_call = call.has_bad_output();
    if (is_bad_call && !is_read[i]) counts[i] = true;
    bool begins_here = is_bad_call;
    for (const Operand& input : call.inputs) {
      if (input.source != Source::kCall || input.call >= i) continue;
      is_read[input.call] = true;
      if (!is_bad_call || !is_bad(input)) continue;
      begins_here = false;
      if (counts[i]) counts[input.call] = true;
    }
    if (begins_here) (counts[i] ? first : first_absorbed) = i;
  }
  return first.has_value() ? first : first_absorbed;
}

}  // namespace mezzo::numbers
