#include <algorithm>
#include <vector>

#include "mezzo/graph/passes/passes.h"
#include "mezzo/graph/rewrite.h"

namespace mezzo::graph {
namespace {

// True if a result takes the layout of the value that it overwrites, which differs from a new
// result's.
bool takes_layout(const Program& program, const Node& node) {
  if (node.over.empty() || node.inputs.empty() || node.inputs[0] == kNoValue) return false;
  return !same_layout(program.spec(node.outputs[0]), program.spec(node.inputs[0]));
}

}  // namespace

std::size_t dead_code(Program& program) {
  std::vector<bool> is_needed(program.values.size(), false);
  for (const ValueId output : program.outputs) is_needed[output] = true;
  std::vector<bool> is_dead(program.nodes.size(), false);
  for (std::size_t i = program.nodes.size(); i-- > 0;) {
    const Node& node = program.nodes[i];
    is_dead[i] = !node.is_host() && std::ranges::none_of(node.outputs, [&](ValueId output) {
      return is_needed[output];
    });
    if (is_dead[i]) continue;
    for (const ValueId input : node.inputs) {
      if (input != kNoValue) is_needed[input] = true;
    }
    if (!takes_layout(program, node)) continue;
    for (const ValueId over : node.over) {
      if (over != kNoValue) is_needed[over] = true;
    }
  }
  return erase_nodes(program, is_dead);
}

}  // namespace mezzo::graph
