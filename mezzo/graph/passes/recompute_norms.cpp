#include "mezzo/graph/passes/passes.h"
#include "mezzo/graph/passes/recompute.h"
#include "mezzo/ops/batch_norm_attrs.h"
#include "mezzo/ops/registry.h"

namespace mezzo::graph {
namespace {

using In = BatchNormInput;

bool is_batch_norm(const Node& node) {
  static const OpDef* const op = find_op("batch_norm");
  return node.op == op && node.attrs.as<BatchNormAttrs>().training;
}

// The norm once more, by the statistics that it has found: the same instructions on the same
// numbers, hence the same bits.
Node again(const Node& norm, ValueId y) {
  BatchNormAttrs attrs = norm.attrs.as<BatchNormAttrs>();
  attrs.training = false;
  Node node{.op = norm.op, .attrs = attrs, .inputs = norm.inputs, .outputs = {y}};
  node.inputs.resize(In::kRunningVar + 1, kNoValue);
  node.inputs[In::kRunningMean] = norm.outputs[1];
  node.inputs[In::kRunningVar] = norm.outputs[2];
  return node;
}

}  // namespace

std::size_t recompute_norms(Program& program) {
  const MemoryUse memory(program);
  // x lives on for the norm's own gradient.
  const auto is_x_kept = [&](std::size_t node, std::size_t reader) {
    const Node& norm = program.nodes[node];
    return is_batch_norm(norm) && memory.last_read(norm.inputs[In::kX]) >= reader;
  };
  return recompute(program, kept_results(program, is_x_kept), again);
}

}  // namespace mezzo::graph
