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

// The node that computes a node's first result again, as `result`.
using Again = std::function<Node(const Node& node, ValueId result)>;

// The program in which backward readers read results that are computed again, right before the
// first of them. What that reads is moved up if it stands later, and is itself computed again if it
// is one of these results.
Program recomputed(const Program& program, const std::vector<Kept>& kept, const Again& again);

// Makes the program that, unless the arena becomes smaller by less than a twentieth: that is not
// worth the time. Returns how many are computed again.
std::size_t recompute(Program& program, const std::vector<Kept>& kept, const Again& again);

}  // namespace mezzo::graph
