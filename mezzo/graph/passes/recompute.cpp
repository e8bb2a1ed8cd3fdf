#include "mezzo/graph/passes/recompute.h"

#include <algorithm>
#include <utility>

#include "mezzo/graph/memory_plan.h"

namespace mezzo::graph {
namespace {

bool is_view(const Node& node) { return !node.is_host() && node.op->view != nullptr; }

std::size_t first_backward_reader(const Program& program, const std::vector<std::size_t>& readers) {
  for (const std::size_t reader : readers) {
    if (program.nodes[reader].phase == Phase::kBackward) return reader;
  }
  return kNoNode;
}

// Makes the backward readers of `from` read `to` instead.
void replace_in_backward(Program& program, ValueId from, ValueId to) {
  for (Node& node : program.nodes) {
    if (node.phase != Phase::kBackward) continue;
    std::ranges::replace(node.inputs, from, to);
    std::ranges::replace(node.over, from, to);
  }
}

// The nodes in their order, except that each node from `first_new` on, and its inputs, come right
// before the first node that needs it.
class InOrderOfNeed {
 public:
  InOrderOfNeed(const Program& program, std::size_t first_new)
      : program_(program), makers_(makers(program)), is_placed_(program.nodes.size(), false) {
    for (std::size_t i = 0; i < first_new; ++i) place(i);
  }

  std::vector<Node> take() { return std::move(nodes_); }

 private:
  void place(std::size_t i) {
    if (is_placed_[i]) return;
    is_placed_[i] = true;
    for (const ValueId input : program_.nodes[i].inputs) {
      if (input != kNoValue && makers_[input] != kNoNode) place(makers_[input]);
    }
    nodes_.push_back(program_.nodes[i]);
  }

  const Program& program_;
  std::vector<std::size_t> makers_;
  std::vector<bool> is_placed_;
  std::vector<Node> nodes_;
};

}  // namespace

std::vector<Kept> kept_results(const Program& program,
                               const std::function<bool(std::size_t, std::size_t)>& may_go) {
  const std::vector<std::vector<std::size_t>> all_readers = readers(program);
  const MemoryUse memory(program);
  std::vector<Kept> kept;
  for (std::size_t i = 0; i < program.nodes.size(); ++i) {
    const Node& node = program.nodes[i];
    if (node.is_host() || node.phase != Phase::kForward || is_view(node)) continue;
    const ValueId result = node.outputs[0];
    const std::size_t reader = first_backward_reader(program, all_readers[result]);
    if (reader == kNoNode || is_update_between(program, i, reader)) continue;
    const bool goes_elsewhere =
        memory.is_returned(result) || std::ranges::any_of(all_readers[result], [&](std::size_t r) {
          return program.nodes[r].is_host() || is_view(program.nodes[r]);
        });
    if (!goes_elsewhere && may_go(i, reader)) kept.push_back({i, reader});
  }
  return kept;
}

Program recomputed(const Program& program, const std::vector<Kept>& kept, const Again& again) {
  Program result = program;
  std::vector<ValueId> again_values;
  for (const Kept& k : kept) {
    const Node& node = program.nodes[k.node];
    again_values.push_back(result.add_result(program.spec(node.outputs[0])));
    result.nodes.push_back(again(node, again_values.back()));
    result.nodes.back().phase = Phase::kBackward;
    result.nodes.back().path = node.path;
  }
  for (std::size_t i = 0; i < kept.size(); ++i) {
    replace_in_backward(result, program.nodes[kept[i].node].outputs[0], again_values[i]);
  }
  result.nodes = InOrderOfNeed(result, program.nodes.size()).take();
  return result;
}

std::size_t recompute(Program& program, const std::vector<Kept>& kept, const Again& again) {
  if (kept.empty()) return 0;
  Program changed = recomputed(program, kept, again);
  const std::size_t before = plan_memory(program).arena_bytes;
  if (plan_memory(changed).arena_bytes > before - before / 20) return 0;
  program = std::move(changed);
  return kept.size();
}

}  // namespace mezzo::graph
