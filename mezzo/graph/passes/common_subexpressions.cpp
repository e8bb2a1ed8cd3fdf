#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "mezzo/amp/policy.h"
#include "mezzo/graph/passes/passes.h"
#include "mezzo/graph/rewrite.h"

namespace mezzo::graph {
namespace {

bool same_policy(const Node& a, const Node& b) {
  if (a.policy == nullptr || b.policy == nullptr) return a.policy == b.policy;
  return *a.policy == *b.policy;
}

class Merger {
 public:
  explicit Merger(Program& program)
      : program_(program), memory_(program), is_gone_(program.nodes.size(), false) {
    for (const ValueId value : program.outputs) returned_.push_back(memory_.owner(value));
  }

  std::size_t run() {
    for (std::size_t i = 0; i < program_.nodes.size(); ++i) {
      if (!can_merge(program_.nodes[i])) continue;
      std::vector<std::size_t>& alike = seen_[{program_.nodes[i].op, program_.nodes[i].inputs}];
      const auto first = std::ranges::find_if(alike, [&](std::size_t k) { return same(k, i); });
      if (first == alike.end()) {
        alike.push_back(i);
      } else {
        merge(*first, i);
      }
    }
    return erase_nodes(program_, is_gone_);
  }

 private:
  bool can_merge(const Node& node) const {
    if (node.is_host() || node.attrs.random_position() != nullptr) return false;
    // Host work that changes one result must not change the other. A view has no elements of its
    // own: two equal views are the same anyway.
    return node.op->view != nullptr ||
           std::ranges::none_of(node.outputs, [&](ValueId v) { return memory_.may_change(v); });
  }

  bool same(std::size_t first, std::size_t i) const {
    const Node& a = program_.nodes[first];
    const Node& b = program_.nodes[i];
    if (a.outputs.size() != b.outputs.size() || !(a.attrs == b.attrs)) return false;
    if (a.paint != b.paint || !same_policy(a, b) || is_again(a, b)) return false;
    for (std::size_t k = 0; k < a.outputs.size(); ++k) {
      if (program_.spec(a.outputs[k]) != program_.spec(b.outputs[k])) return false;
    }
    if (a.op->view != nullptr) return true;
    return reads_the_same(first, i) && !returns_both(a, b);
  }

  // A backward pass recomputes results in order not to keep them from the forward pass, so those
  // are not merged. 16-bit copies of parameters and inputs are merged, since calls of both passes
  // read them.
  bool is_again(const Node& a, const Node& b) const {
    if (a.phase == b.phase || a.op->view != nullptr) return false;
    return !is_cast(a) || program_.values[a.inputs[0]].kind == ValueKind::kResult;
  }

  // Whether both nodes, which read the same values, read them with the same contents.
  bool reads_the_same(std::size_t first, std::size_t i) const {
    if (memory_.host_work_before(first) == memory_.host_work_before(i)) return true;
    return std::ranges::none_of(program_.nodes[i].inputs, [&](ValueId input) {
      return input != kNoValue && memory_.may_change(input);
    });
  }

  bool is_returned(const Node& node) const {
    return std::ranges::any_of(node.outputs, [&](ValueId output) {
      return std::ranges::find(returned_, output) != returned_.end();
    });
  }
  // Both are returned: the caller may change one result without the other.
  bool returns_both(const Node& a, const Node& b) const { return is_returned(a) && is_returned(b); }

  void merge(std::size_t first, std::size_t i) {
    const std::vector<ValueId>& kept = program_.nodes[first].outputs;
    const std::vector<ValueId>& gone = program_.nodes[i].outputs;
    for (std::size_t k = 0; k < kept.size(); ++k) {
      replace_uses(program_, gone[k], kept[k]);
      std::ranges::replace(returned_, gone[k], kept[k]);
    }
    is_gone_[i] = true;
  }

  Program& program_;
  MemoryUse memory_;
  std::vector<ValueId> returned_;  // includes the values that returned views belong to
  std::vector<bool> is_gone_;
  // The remaining nodes, by their current inputs.
  std::map<std::pair<const OpDef*, std::vector<ValueId>>, std::vector<std::size_t>> seen_;
};

}  // namespace

std::size_t common_subexpressions(Program& program) { return Merger(program).run(); }

}  // namespace mezzo::graph
