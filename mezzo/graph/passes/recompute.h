// Results of the forward pass that are computed again in the backward pass instead of being kept.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "mezzo/graph/rewrite.h"

namespace mezzo::graph {

// A forward node whose first result the backward pass reads.
struct Kept {
  std::size_t node = 0;
  std::size_t first_backward_reader = 0;
};

// Those of the program for which `may_go(node, kept.first_backward_reader)` is true. Their results
// go nowhere but into calls, and no update comes between both.
std::vector<Kept> kept_results(const Program& program,
                               const std::function<bool(std::size_t, std::size_t)>& may_go);

// Computes them again before their first backward reader, by the nodes that again(node, result)
// gives, unless that makes the arena smaller by less than a twentieth: that is not worth the time.
// Returns how many are computed again.
std::size_t recompute(Program& program, const std::vector<Kept>& kept,
                      const std::function<Node(const Node& node, ValueId result)>& again);

}  // namespace mezzo::graph
