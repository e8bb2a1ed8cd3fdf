// Gradients that are not computed where they stand, but by the update that they are for.
#pragma once

#include <vector>

#include "mezzo/graph/program.h"

namespace mezzo::graph {

// For each node, whether its result needs no memory: the f32 gradient of one parameter, read by
// nobody but an early part of the update (passes/update_in_backward.cpp), of a kernel that computes
// it by rows (Kernel::rows) on a CPU. What the node reads has to be there until then.
std::vector<bool> gradients_by_updates(const Program& program);

}  // namespace mezzo::graph
