#include "mezzo/tune/step_calls.h"

#include <algorithm>

#include "mezzo/amp/precision_plan.h"
#include "mezzo/ops/all.h"
#include "mezzo/ops/scaled_linear.h"

namespace mezzo::tune {

bool StepOperation::has_exact_form() const {
  return op == &ops::conv2d || op == &ops::conv_transpose2d;
}

std::optional<std::size_t> StepCalls::find(const std::string& module, const std::string& op) const {
  const auto found = std::ranges::find_if(operations, [&](const StepOperation& operation) {
    return operation.module == module && operation.op->name == op;
  });
  if (found == operations.end()) return std::nullopt;
  return static_cast<std::size_t>(found - operations.begin());
}

bool is_scaled_part(const std::string& op) {
  return op == ops::scaled_cast.name || op == ops::scaled_matmul.name || op == kScaledLinearName;
}

std::optional<std::size_t> product_or_call(const StepCalls& calls, const std::string& module,
                                           const std::string& op) {
  if (!is_scaled_part(op)) return calls.find(module, op);
  const auto found = std::ranges::find_if(calls.operations, [&](const StepOperation& operation) {
    return operation.module == module && has_scaled_form(*operation.op);
  });
  if (found == calls.operations.end()) return std::nullopt;
  return static_cast<std::size_t>(found - calls.operations.begin());
}

void CollectStepCalls::begin_calls(const Batch& batch) {
  sources_.name_state(net_);
  sources_.name_batch(batch);
}

void CollectStepCalls::on_call(const amp::ObservedStepCall& call) {
  if (call.results[0].call.is_backward()) return;
  if (call.op.view != nullptr) {
    sources_.add_view(*call.inputs[0], call.outputs[0]);
    return;
  }
  const std::optional<std::size_t> operation = operation_of(call);
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const Tensor& input = *call.inputs[i];
    const bool counts = input.defined() && amp::takes_part(input.dtype());
    if (!counts) continue;
    if (operation.has_value() && call.op.precision.may_cast(i)) {
      read(input, *operation);
    } else {
      read_in_f32(input);
    }
  }
  for (std::size_t i = 0; i < call.outputs.size(); ++i) {
    const Tensor& output = call.outputs[i];
    if (!output.defined()) continue;
    sources_.add_result(output, makers_.size(), i);
    if (operation.has_value() && i == 0) calls_.operations[*operation].results += output.numel();
  }
  makers_.push_back(operation);
}

std::optional<std::size_t> CollectStepCalls::operation_of(const amp::ObservedStepCall& call) {
  if (!amp::is_plannable(call.op, call.inputs)) return std::nullopt;
  const std::string module = nn::current_module_path();
  const auto [known, is_new] = known_.try_emplace({module, &call.op}, calls_.operations.size());
  if (is_new) calls_.operations.push_back({.module = module, .op = &call.op});
  StepOperation& operation = calls_.operations[known->second];
  ++operation.calls;
  if (has_scaled_form(call.op, call.inputs, call.attrs)) ++operation.scalable_calls;
  return known->second;
}

std::optional<std::size_t> CollectStepCalls::maker_of(const Tensor& input,
                                                      numbers::Source& source) {
  const numbers::Origin origin = sources_.of(input);
  source = origin.source;
  return origin.source == numbers::Source::kCall ? makers_.at(origin.call) : std::nullopt;
}

void CollectStepCalls::read_in_f32(const Tensor& input) {
  numbers::Source source{};
  const std::optional<std::size_t> maker = maker_of(input, source);
  if (maker.has_value()) calls_.operations[*maker].f32_reads += input.numel();
}

void CollectStepCalls::read(const Tensor& input, std::size_t reader) {
  numbers::Source source{};
  const std::optional<std::size_t> maker = maker_of(input, source);
  StepOperation& operation = calls_.operations[reader];
  if (source == numbers::Source::kParameter) {
    operation.parameters += input.numel();
  } else if (!maker.has_value()) {
    operation.f32_inputs += input.numel();
  } else if (*maker != reader) {
    const auto [known, is_new] = edges_.try_emplace({*maker, reader}, calls_.edges.size());
    if (is_new) calls_.edges.push_back({.maker = *maker, .reader = reader});
    calls_.edges[known->second].elements += input.numel();
  }
}

}  // namespace mezzo::tune
