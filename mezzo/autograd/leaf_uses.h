// Where a backward pass uses leaves.
#pragma once

#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "mezzo/autograd/leaf_listener.h"
#include "mezzo/ops/dispatcher/node.h"

namespace mezzo {

// Counts how often the nodes of a backward pass use each leaf, and tells a listener once the last
// of these nodes has been differentiated.
class LeafUses {
 public:
  explicit LeafUses(LeafListener& listener) : listener_(listener) {}

  // Counts the uses by this node and by all that it depends on.
  void add(Node& node);
  // Called when the node has been differentiated, and its gradients have been added to leaves.
  void end(Node& node);

 private:
  LeafListener& listener_;
  std::unordered_set<const Node*> nodes_;
  std::unordered_map<const TensorImpl*, int> left_;
  int holding_ = 0;               // nodes that must be differentiated before anybody is told
  std::vector<Tensor> complete_;  // of which nobody was told yet
};

}  // namespace mezzo
