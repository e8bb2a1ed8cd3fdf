// The part of a captured step that is painted.
#include "mezzo/graph/capture.h"

namespace mezzo::graph {

Program forward_part(const Program& program) {
  Program forward;
  forward.values = program.values;
  forward.inputs = program.inputs;
  forward.device = program.device;
  const std::vector<std::size_t> made_by = makers(program);
  std::vector<bool> is_made(program.values.size(), false);
  // A value from a backward pass, such as a gradient that is part of a loss, is an input here.
  const auto give = [&](ValueId value) {
    if (value == kNoValue || is_made[value] || made_by[value] == kNoNode) return;
    Value& given = forward.values[value];
    if (given.kind == ValueKind::kInput) return;
    given.kind = ValueKind::kInput;
    forward.inputs.push_back(value);
  };
  for (const Node& node : program.nodes) {
    if (node.phase != Phase::kForward) continue;
    for (const ValueId input : node.inputs) give(input);
    for (const ValueId over : node.over) give(over);
    for (const ValueId output : node.outputs) is_made[output] = true;
    forward.nodes.push_back(node);
  }
  for (const ValueId output : program.outputs) {
    if (is_made[output]) forward.outputs.push_back(output);
  }
  return forward;
}

std::vector<Paint> paints_of(const Program& forward) {
  std::vector<Paint> paints;
  for (const Node& node : forward.nodes) {
    if (!node.is_host() && !node.is_promotion) paints.push_back({node.op, node.paint});
  }
  return paints;
}

}  // namespace mezzo::graph
