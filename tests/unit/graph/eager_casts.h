// Counts the casts that autocast makes when a program's calls run one by one. It follows
// amp/autocast.cpp and ops/dispatcher/call.cpp, on dtypes alone.
#pragma once

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>
#include <vector>

#include "mezzo/graph/passes/infer_specs.h"
#include "mezzo/graph/program.h"

namespace mezzo::graph {

class EagerRun {
 public:
  explicit EagerRun(const Program& program) : program_(program) {
    for (const Value& value : program.values) specs_.push_back(value.spec);
    for (const Node& node : program.nodes) {
      if (!node.is_host()) call(node);
    }
    for (const ValueId output : program.outputs) {
      if (specs_[output].dtype != program.spec(output).dtype) ++activations_;
    }
  }

  // One per use of an activation, one per dtype of a parameter.
  std::size_t casts() const { return activations_ + parameters_.size(); }
  DType dtype_of(ValueId value) const { return specs_[value].dtype; }

 private:
  static bool in_mask(std::uint32_t mask, std::size_t i) {
    return (mask >> std::min<std::size_t>(i, 31) & 1U) != 0;
  }

  void cast(ValueId value, ValueSpec& spec, DType to) {
    if (spec.dtype == to) return;
    spec.dtype = to;
    if (program_.values[value].kind == ValueKind::kState && is_lower(to)) {
      parameters_.emplace(value, to);
    } else {
      ++activations_;
    }
  }

  static DType wanted(const Node& node, DType has, std::size_t input) {
    if (!in_mask(node.op->precision.cast_mask, input)) return has;
    if (has != DType::kF32 && !is_lower(has)) return has;
    switch (amp::action_for(*node.policy, *node.op)) {
      case amp::CastAction::kToLower: return node.policy->lower;
      case amp::CastAction::kToFloat32: return DType::kF32;
      default: return has;
    }
  }

  void call(const Node& node) {
    std::vector<ValueSpec> inputs(node.inputs.size());
    std::vector<const ValueSpec*> pointers(node.inputs.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const ValueId value = node.inputs[i];
      if (value == kNoValue) continue;
      inputs[i] = specs_[value];
      pointers[i] = &inputs[i];
      if (node.policy != nullptr) cast(value, inputs[i], wanted(node, inputs[i].dtype, i));
    }
    promote_inputs(node, inputs);
    const std::vector<ValueSpec> outputs = infer_specs(*node.op, node.attrs, pointers);
    for (std::size_t i = 0; i < node.outputs.size(); ++i) specs_[node.outputs[i]] = outputs[i];
  }

  void promote_inputs(const Node& node, std::vector<ValueSpec>& inputs) {
    std::vector<std::size_t> agree;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (node.inputs[i] != kNoValue && in_mask(node.op->promote, i)) agree.push_back(i);
    }
    if (agree.empty()) return;
    DType common = inputs[agree.front()].dtype;
    for (const std::size_t i : agree) common = promote(common, inputs[i].dtype);
    for (const std::size_t i : agree) cast(node.inputs[i], inputs[i], common);
  }

  const Program& program_;
  std::vector<ValueSpec> specs_;
  std::size_t activations_ = 0;
  std::set<std::pair<ValueId, DType>> parameters_;
};

}  // namespace mezzo::graph
