#include <algorithm>
#include <vector>

#include "mezzo/graph/memory_plan.h"
#include "mezzo/graph/passes/passes.h"
#include "mezzo/graph/rewrite.h"
#include "mezzo/ops/batch_norm_attrs.h"
#include "mezzo/ops/registry.h"

namespace mezzo::graph {
namespace {

using In = BatchNormInput;

// A normalisation whose result is kept for the backward pass.
struct Kept {
  std::size_t node = 0;
  std::size_t first_backward_reader = 0;
};

class Recompute {
 public:
  explicit Recompute(const Program& program)
      : program_(program), readers_(readers(program)), memory_(program) {}

  std::vector<Kept> kept_norms() const {
    std::vector<Kept> kept;
    for (std::size_t i = 0; i < program_.nodes.size(); ++i) {
      if (!is_batch_norm(program_.nodes[i])) continue;
      const std::size_t reader = first_backward_reader(program_.nodes[i].outputs[0]);
      if (reader != kNoNode && is_kept_for_nothing_else(i, reader)) kept.push_back({i, reader});
    }
    return kept;
  }

 private:
  static bool is_batch_norm(const Node& node) {
    static const OpDef* const op = find_op("batch_norm");
    return node.op == op && node.phase == Phase::kForward &&
           node.attrs.as<BatchNormAttrs>().training;
  }

  std::size_t first_backward_reader(ValueId y) const {
    for (const std::size_t reader : readers_[y]) {
      if (program_.nodes[reader].phase == Phase::kBackward) return reader;
    }
    return kNoNode;
  }

  bool is_view(std::size_t node) const {
    const OpDef* op = program_.nodes[node].op;
    return op != nullptr && op->view != nullptr;
  }

  // True if y goes nowhere but into calls, and what it is computed from is there when it is needed
  // again: x lives on for the norm's own gradient, and no update comes between.
  bool is_kept_for_nothing_else(std::size_t node, std::size_t reader) const {
    const Node& norm = program_.nodes[node];
    const ValueId y = norm.outputs[0];
    const bool goes_elsewhere =
        memory_.is_returned(y) || std::ranges::any_of(readers_[y], [&](std::size_t r) {
          return program_.nodes[r].is_host() || is_view(r);
        });
    return !goes_elsewhere && memory_.last_read(norm.inputs[In::kX]) >= reader &&
           std::none_of(program_.nodes.begin() + static_cast<std::ptrdiff_t>(node),
                        program_.nodes.begin() + static_cast<std::ptrdiff_t>(reader),
                        [](const Node& between) { return between.phase == Phase::kUpdate; });
  }

  const Program& program_;
  std::vector<std::vector<std::size_t>> readers_;
  MemoryUse memory_;
};

// The norm once more, by the statistics that it has found: the same instructions on the same
// numbers, hence the same bits.
Node again(const Node& norm, ValueId y) {
  BatchNormAttrs attrs = norm.attrs.as<BatchNormAttrs>();
  attrs.training = false;
  Node node{.op = norm.op, .attrs = attrs, .inputs = norm.inputs, .outputs = {y}};
  node.inputs.resize(In::kRunningVar + 1, kNoValue);
  node.inputs[In::kRunningMean] = norm.outputs[1];
  node.inputs[In::kRunningVar] = norm.outputs[2];
  node.phase = Phase::kBackward;
  node.path = norm.path;
  return node;
}

// Makes the norm's backward readers read `y` instead.
void replace_in_backward(Program& program, ValueId from, ValueId y) {
  for (Node& node : program.nodes) {
    if (node.phase != Phase::kBackward) continue;
    std::ranges::replace(node.inputs, from, y);
    std::ranges::replace(node.over, from, y);
  }
}

Program recomputed(const Program& program, const std::vector<Kept>& kept) {
  Program result = program;
  std::vector<Node> nodes;
  for (const Kept& k : kept) {
    const ValueId from = program.nodes[k.node].outputs[0];
    replace_in_backward(result, from, result.add_result(program.spec(from)));
  }
  const auto first_new = static_cast<ValueId>(program.values.size());
  for (std::size_t i = 0; i < program.nodes.size(); ++i) {
    for (std::size_t k = 0; k < kept.size(); ++k) {
      if (kept[k].first_backward_reader != i) continue;
      nodes.push_back(again(program.nodes[kept[k].node], first_new + static_cast<ValueId>(k)));
    }
    nodes.push_back(std::move(result.nodes[i]));
  }
  result.nodes = std::move(nodes);
  return result;
}

}  // namespace

std::size_t recompute_norms(Program& program) {
  const std::vector<Kept> kept = Recompute(program).kept_norms();
  if (kept.empty()) return 0;
  Program changed = recomputed(program, kept);
  // Less than a part in twenty is not worth the time.
  const std::size_t before = plan_memory(program).arena_bytes;
  if (plan_memory(changed).arena_bytes > before - before / 20) return 0;
  program = std::move(changed);
  return kept.size();
}

}  // namespace mezzo::graph
