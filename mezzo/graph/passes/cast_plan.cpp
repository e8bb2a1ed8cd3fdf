#include "mezzo/graph/passes/cast_plan.h"

#include <algorithm>

#include "mezzo/graph/passes/infer_specs.h"
#include "mezzo/graph/rewrite.h"

namespace mezzo::graph {
namespace {

// The dtype to which the node's scale and shift are rounded, as autocast does if the policy does
// not keep normalisations in f32.
std::optional<DType> rounding_of(const Node& node) {
  if (node.is_host() || node.policy == nullptr) return {};
  const amp::Policy& policy = *node.policy;
  const bool rounds = is_lower(policy.dtype()) && amp::rounds_parameters(policy, *node.op);
  return rounds ? std::optional(policy.lower) : std::nullopt;
}

}  // namespace

CastPlanner::CastPlanner(const Program& program)
    : program_(program), makers_(makers(program)), inferences_(program.nodes.size()) {}

CastPlan CastPlanner::plan() {
  const std::size_t values = program_.values.size();
  plan_ = {};
  cast_.assign(values, 0);
  rounded_.assign(values, 0);
  dtypes_.resize(values);
  for (std::size_t i = 0; i < values; ++i) dtypes_[i] = program_.values[i].spec.dtype;
  for (std::size_t i = 0; i < program_.nodes.size(); ++i) visit(i);
  for (std::size_t i = 0; i < program_.outputs.size(); ++i) {
    plan_input(program_.nodes.size(), i, program_.spec(program_.outputs[i]).dtype);
  }
  return std::move(plan_);
}

const std::vector<DType>& CastPlanner::output_dtypes(std::size_t node,
                                                     const std::vector<DType>& inputs) {
  std::vector<Inference>& known = inferences_[node];
  const auto found = std::ranges::find(known, inputs, &Inference::first);
  if (found != known.end()) return found->second;
  const Node& call = program_.nodes[node];
  std::vector<ValueSpec> specs(inputs.size());
  std::vector<const ValueSpec*> pointers(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (call.inputs[i] == kNoValue) continue;
    specs[i] = program_.spec(call.inputs[i]);
    specs[i].dtype = inputs[i];
    pointers[i] = &specs[i];
  }
  std::vector<DType> outputs;
  for (const ValueSpec& spec : infer_specs(*call.op, call.attrs, pointers)) {
    outputs.push_back(spec.dtype);
  }
  return known.emplace_back(inputs, std::move(outputs)).second;
}

void CastPlanner::visit(std::size_t index) {
  const Node& node = program_.nodes[index];
  if (node.is_host()) return;  // accepts any dtype, and its results do not change
  std::vector<DType> wanted(node.inputs.size(), DType::kF32);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (node.inputs[i] != kNoValue) wanted[i] = dtypes_[node.inputs[i]];
  }
  want_paint(node, wanted);
  want_promotion(node, wanted);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (node.inputs[i] != kNoValue) plan_input(index, i, wanted[i]);
  }
  round_parameters(index);
  const std::vector<DType>& outputs = output_dtypes(index, wanted);
  for (std::size_t i = 0; i < node.outputs.size(); ++i) dtypes_[node.outputs[i]] = outputs[i];
}

void CastPlanner::want_paint(const Node& node, std::vector<DType>& wanted) const {
  if (!node.paint.has_value()) return;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (node.op->precision.may_cast(i) && amp::takes_part(wanted[i])) wanted[i] = *node.paint;
  }
}

// The promotion that call() does in its second step.
void CastPlanner::want_promotion(const Node& node, std::vector<DType>& wanted) const {
  std::optional<DType> common;
  const auto must_agree = [&](std::size_t i) {
    return has_bit(node.op->promote, i) && node.inputs[i] != kNoValue;
  };
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (must_agree(i)) common = common.has_value() ? promote(*common, wanted[i]) : wanted[i];
  }
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (must_agree(i)) wanted[i] = *common;
  }
}

void CastPlanner::plan_input(std::size_t node, std::size_t input, DType wanted) {
  const bool is_result = node == program_.nodes.size();
  const ValueId value = is_result ? program_.outputs[input] : program_.nodes[node].inputs[input];
  if (dtypes_[value] == wanted) return;
  add({node, input, source_for(value, wanted), wanted, {}});
}

void CastPlanner::round_parameters(std::size_t index) {
  const Node& node = program_.nodes[index];
  const std::optional<DType> lower = rounding_of(node);
  if (!lower.has_value()) return;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const ValueId value = node.inputs[i];
    const bool is_parameter = !node.op->precision.may_cast(i) && has_bit(node.op->grad_inputs, i);
    if (value == kNoValue || !is_parameter) continue;
    if (dtypes_[value] == DType::kF32) add({index, i, value, DType::kF32, lower});
  }
}

void CastPlanner::add(InputCast cast) {
  if (cast.rounded_to.has_value()) {
    count(cast.source, cast_, *cast.rounded_to);
    count(cast.source, rounded_, *cast.rounded_to);
  } else if (dtypes_[cast.source] != cast.dtype) {
    count(cast.source, cast_, cast.dtype);
  }
  plan_.inputs.push_back(cast);
}

void CastPlanner::count(ValueId source, std::vector<std::uint8_t>& done, DType dtype) {
  const auto bit = static_cast<std::uint8_t>(1U << static_cast<unsigned>(dtype));
  if ((done[source] & bit) != 0) return;
  done[source] |= bit;
  ++plan_.cost.casts;
  plan_.cost.elements += static_cast<double>(program_.spec(source).shape.numel());
}

// The source of a cast: the value, or the value that it was widened from if that has the dtype.
// Widening 16 bits to f32 and rounding back changes nothing; rounding f32 to 16 bits and back does.
ValueId CastPlanner::source_for(ValueId value, DType dtype) const {
  const std::size_t maker = makers_[value];
  if (maker == kNoNode || !is_cast(program_.nodes[maker])) return value;
  const ValueId before = program_.nodes[maker].inputs[0];
  const bool was_widened = dtypes_[value] == DType::kF32 && is_lower(dtypes_[before]);
  return was_widened && dtypes_[before] == dtype ? before : value;
}

}  // namespace mezzo::graph
