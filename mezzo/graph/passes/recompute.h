// Recomputing results of the forward pass in the backward pass instead of keeping them.
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

// The kept results of the program for which `may_go(node, kept.first_backward_reader)` is true.
// Only calls read these results, and no update comes in between.
std::vector<Kept> kept_results(const Program& program,
                               const std::function<bool(std::size_t, std::size_t)>& may_go);

// Makes the node that recomputes a node's first result, as `result`.
using Again = std::function<Node(const Node& node, ValueId result)>;

// The program in which backward readers read recomputed results, computed right before the first of
// them. Inputs of the recomputation are moved up if they come later, and are recomputed themselves
// if they are among these results.
Program recomputed(const Program& program, const std::vector<Kept>& kept, const Again& again);

// Applies recomputed() if the arena becomes smaller by at least a twentieth; less is not worth the
// time. Returns the number of results recomputed.
std::size_t recompute(Program& program, const std::vector<Kept>& kept, const Again& again);

}  // namespace mezzo::graph
