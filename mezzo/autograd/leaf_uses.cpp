#include "mezzo/autograd/leaf_uses.h"

#include <utility>
#include <vector>

namespace mezzo {
namespace {

thread_local LeafListener* current_listener = nullptr;

bool holds(const Node& node) {
  const OpDef& op = node.op();
  return op.may_call_backward || (op.exchanges != nullptr && op.exchanges(node.attrs()));
}

}  // namespace

LeafListener* leaf_listener() { return current_listener; }

ListenToLeaves::ListenToLeaves(LeafListener* listener) : scope_(current_listener, listener) {}

void LeafUses::add(Node& node) {
  std::vector<Node*> waiting;
  const auto add_once = [&](Node* other) {
    if (!nodes_.insert(other).second) return;
    waiting.push_back(other);
    holding_ += holds(*other) ? 1 : 0;
  };
  add_once(&node);
  while (!waiting.empty()) {
    Node* next = waiting.back();
    waiting.pop_back();
    for (const NodeInput& input : next->inputs()) {
      if (input.node) {
        add_once(input.node.get());
      } else if (input.leaf) {
        ++left_[input.leaf.get()];
      }
    }
  }
}

void LeafUses::end(Node& node) {
  holding_ -= holds(node) ? 1 : 0;
  for (const NodeInput& input : node.inputs()) {
    if (input.node || !input.leaf) continue;
    if (--left_[input.leaf.get()] == 0) complete_.emplace_back(input.leaf);
  }
  if (holding_ > 0) return;
  for (const Tensor& leaf : std::exchange(complete_, {})) listener_.on_complete(leaf);
}

}  // namespace mezzo
