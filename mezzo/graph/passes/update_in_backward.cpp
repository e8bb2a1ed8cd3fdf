#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "mezzo/graph/memory_plan.h"
#include "mezzo/graph/passes/passes.h"

namespace mezzo::graph {
namespace {

// Bytes of gradients for one part of the update. Fewer are not worth a parallel loop.
constexpr std::size_t kLeastBytes = 256UL << 10;

// Finds values that share memory: a view is rooted in the viewed value, a parameter's 16-bit copy
// in the parameter, and states may share memory with others.
class Roots {
 public:
  explicit Roots(const Program& program) : roots_(program.values.size()) {
    std::iota(roots_.begin(), roots_.end(), ValueId{0});
    for (ValueId v = 0; v < roots_.size(); ++v) {
      const Tensor& state = program.values[v].tensor;
      if (state.defined()) roots_[v] = by_storage_.emplace(state.storage().get(), v).first->second;
    }
    for (const Node& node : program.nodes) {
      if (node.is_host()) continue;
      const bool is_same = node.op->view != nullptr || is_parameter_copy(program, node);
      if (is_same) roots_[node.outputs[0]] = roots_[node.inputs[0]];
    }
  }

  ValueId of(ValueId value) const { return value != kNoValue ? roots_[value] : kNoValue; }
  // kNoValue for a tensor that the program does not know.
  ValueId of(const Tensor& tensor) const {
    const auto found = by_storage_.find(tensor.storage().get());
    return found != by_storage_.end() ? found->second : kNoValue;
  }

 private:
  std::vector<ValueId> roots_;
  std::map<const Storage*, ValueId> by_storage_;
};

// When the memory of each root is used before and after a node.
class Uses {
 public:
  Uses(const Program& program, const Roots& roots, std::size_t node)
      : node_(node), before_(program.values.size(), 0), behind_(program.values.size(), false) {
    for (std::size_t i = 0; i < program.nodes.size(); ++i) {
      const Node& n = program.nodes[i];
      if (i == node) continue;
      for (const auto* values : {&n.inputs, &n.over, &n.outputs}) {
        for (const ValueId value : *values) note(roots.of(value), i);
      }
    }
    for (const ValueId output : program.outputs) note(roots.of(output), program.nodes.size());
  }

  // The last node before; 0 if there is none.
  std::size_t last_before(ValueId root) const { return root != kNoValue ? before_[root] : 0; }
  bool is_behind(ValueId root) const { return behind_[root]; }

 private:
  void note(ValueId root, std::size_t at) {
    if (root == kNoValue) return;
    if (at < node_) {
      before_[root] = std::max(before_[root], at);
    } else {
      behind_[root] = true;
    }
  }

  std::size_t node_;
  std::vector<std::size_t> before_;
  std::vector<bool> behind_;
};

// A leaf that can be updated early.
struct Ready {
  std::size_t leaf;    // its index among the leaves of the update
  std::size_t behind;  // the node that it waits for
  std::size_t bytes;   // of its gradient
};

struct Group {
  std::vector<std::size_t> leaves{};
  std::size_t behind = 0;
};

// Splits host work, a node of the program, into parts.
class Splitter {
 public:
  Splitter(const Program& program, std::size_t update)
      : program_(program),
        update_(update),
        node_(program.nodes[update]),
        roots_(program),
        uses_(program, roots_, update) {}

  std::vector<Group> groups() const {
    const std::size_t last_call = last_call_before();
    std::vector<Group> groups;
    Group group;
    std::size_t bytes = 0;
    for (const Ready& ready : ready_leaves()) {
      group.leaves.push_back(ready.leaf);
      group.behind = ready.behind;
      bytes += ready.bytes;
      // After the last call an early update has no advantage.
      if (bytes < kLeastBytes || group.behind >= last_call) continue;
      groups.push_back(std::exchange(group, {}));
      bytes = 0;
    }
    return groups;
  }

 private:
  ValueId gradient(std::size_t leaf) const {
    return node_.inputs[node_.inputs.size() - node_.leaves.size() + leaf];
  }

  std::size_t last_call_before() const {
    std::size_t last = update_;
    while (last > 0 && program_.nodes[last].is_host()) --last;
    return last;
  }

  // After this node nothing can end the run early, or read what the update changes without
  // declaring it.
  std::size_t earliest() const {
    std::size_t first = 0;
    for (std::size_t i = 0; i < update_; ++i) {
      const Node& node = program_.nodes[i];
      if (node.is_host() && node.time != HostWorkTime::kCanWait) first = i;
    }
    for (const Tensor& changed : node_.by_leaf->changes) {
      first = std::max(first, uses_.last_before(roots_.of(changed)));
    }
    return first;
  }

  std::vector<Ready> ready_leaves() const {
    std::map<ValueId, int> gradients;
    std::map<const Storage*, int> storages;
    for (std::size_t i = 0; i < node_.leaves.size(); ++i) {
      ++gradients[roots_.of(gradient(i))];
      ++storages[node_.leaves[i].storage().get()];
    }
    const std::size_t first = earliest();
    std::vector<Ready> ready;
    for (std::size_t i = 0; i < node_.leaves.size(); ++i) {
      const ValueId root = roots_.of(gradient(i));
      const Tensor& leaf = node_.leaves[i];
      const bool is_own = root != kNoValue && program_.values[root].kind == ValueKind::kResult &&
                          gradients[root] == 1 && storages[leaf.storage().get()] == 1;
      if (!is_own || uses_.is_behind(root)) continue;
      const std::size_t behind =
          std::max({first, uses_.last_before(root), uses_.last_before(roots_.of(leaf))});
      ready.push_back({i, behind, program_.spec(gradient(i)).bytes()});
    }
    std::ranges::stable_sort(ready, {}, &Ready::behind);
    return ready;
  }

  const Program& program_;
  std::size_t update_;
  const Node& node_;
  Roots roots_;
  Uses uses_;
};

// The part of the update for these leaves alone.
Node of_leaves(const Node& update, const std::vector<std::size_t>& leaves) {
  Node node = update;
  node.by_leaf = nullptr;
  node.inputs.clear();
  node.leaves.clear();
  const std::size_t first = update.inputs.size() - update.leaves.size();
  for (const std::size_t leaf : leaves) {
    node.inputs.push_back(update.inputs[first + leaf]);
    node.leaves.push_back(update.leaves[leaf]);
  }
  return node;
}

Node part_of(const Node& update, const std::vector<std::size_t>& leaves, bool is_first) {
  Node node = of_leaves(update, leaves);
  node.host += ".some";
  node.is_part = true;
  node.work = [parts = update.by_leaf, leaves, is_first](std::span<const Tensor>) {
    if (is_first) parts->begin();
    parts->some(leaves);
    return true;
  };
  return node;
}

Node rest_of(const Node& update, const std::vector<Group>& groups) {
  std::vector<bool> is_gone(update.leaves.size(), false);
  for (const Group& group : groups) {
    for (const std::size_t leaf : group.leaves) is_gone[leaf] = true;
  }
  std::vector<std::size_t> leaves;
  for (std::size_t i = 0; i < is_gone.size(); ++i) {
    if (!is_gone[i]) leaves.push_back(i);
  }
  Node node = of_leaves(update, leaves);
  node.work = [parts = update.by_leaf, leaves](std::span<const Tensor>) {
    parts->some(leaves);
    parts->end();
    return true;
  };
  return node;
}

// The nodes, with those groups of the update's leaves inserted at their places.
std::vector<Node> split(const Program& program, std::size_t update,
                        const std::vector<Group>& groups) {
  std::vector<Node> nodes;
  auto group = groups.begin();
  for (std::size_t i = 0; i < program.nodes.size(); ++i) {
    const Node& node = program.nodes[i];
    nodes.push_back(i == update ? rest_of(node, groups) : node);
    for (; group != groups.end() && group->behind == i; ++group) {
      nodes.push_back(part_of(program.nodes[update], group->leaves, group == groups.begin()));
    }
  }
  return nodes;
}

}  // namespace

std::size_t update_in_backward(Program& program) {
  std::size_t parts = 0;
  if (program.device != kCpuDevice) return parts;
  for (std::size_t i = 0; i < program.nodes.size(); ++i) {
    const Node& node = program.nodes[i];
    if (node.by_leaf == nullptr || node.inputs.size() != node.leaves.size()) continue;
    const std::vector<Group> groups = Splitter(program, i).groups();
    if (groups.empty()) continue;
    program.nodes = split(program, i, groups);
    parts += groups.size();
    i += groups.size();
  }
  return parts;
}

}  // namespace mezzo::graph
