#include "mezzo/numbers/call_trace.h"

#include <algorithm>

#include "mezzo/core/error.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/dispatcher/node.h"

namespace mezzo::numbers {
namespace {

bool is_bad(const Operand& operand) { return !operand.range.all_finite(); }

// The parameter that a tensor is a 16-bit copy of: it is not made by a call of the step.
Tensor copied_parameter(const Tensor& tensor) {
  Node* node = node_of(tensor);
  if (node == nullptr || node->op().name != std::string_view("cast")) return {};
  const NodeInput& input = node->inputs()[0];
  return input.leaf ? Tensor(input.leaf) : Tensor();
}

}  // namespace

bool TracedStepCall::has_bad_output() const { return std::ranges::any_of(outputs, is_bad); }
bool TracedStepCall::has_bad_input() const { return std::ranges::any_of(inputs, is_bad); }

CallTrace::Place CallTrace::place_of(const Tensor& tensor) {
  return {tensor.storage().get(), tensor.offset()};
}

void CallTrace::name(const Tensor& tensor, Source source, const std::string& name) {
  if (tensor.defined()) storages_[tensor.storage().get()] = {.source = source, .name = name};
}

void CallTrace::clear() {
  calls_.clear();
  known_.clear();
  storages_.clear();
}

CallTrace::Known CallTrace::source_of(const Tensor& tensor) {
  if (const auto known = known_.find(place_of(tensor)); known != known_.end()) {
    return known->second;
  }
  const void* storage = tensor.storage().get();
  if (const auto known = storages_.find(storage); known != storages_.end()) return known->second;
  const Tensor parameter = copied_parameter(tensor);
  if (!parameter.defined()) return {};
  const auto known = storages_.find(parameter.storage().get());
  if (known == storages_.end()) return {};
  return storages_[storage] = known->second;  // the backward pass reads it without its history
}

Operand CallTrace::operand(const Tensor& tensor) {
  const Known known = source_of(tensor);
  return {.dtype = tensor.dtype(),
          .shape = concat(tensor.shape()),
          .range = range_of(tensor),
          .source = known.source,
          .call = known.call,
          .name = known.name};
}

void CallTrace::add(const amp::ObservedStepCall& call) {
  if (call.op.view != nullptr) {
    if (call.inputs[0]->defined()) known_[place_of(call.outputs[0])] = source_of(*call.inputs[0]);
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
  for (const Tensor& output : call.outputs) {
    if (!output.defined()) continue;
    known_[place_of(output)] = {.source = Source::kCall, .call = calls_.size()};
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
