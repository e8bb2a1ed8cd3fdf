// Finds gradients that the update computes as it uses them, instead of the node that makes them.
#pragma once

#include <vector>

#include "mezzo/graph/program.h"

namespace mezzo::graph {

// For each node, whether its result needs no memory. This is so for an f32 gradient of one
// parameter that only an early part of the update reads (passes/update_in_backward.cpp), from a
// kernel that can compute it by rows (Kernel::rows) on a CPU. The node's inputs must exist until
// then, so they may keep no more memory from the calls in between than the gradient would. A small
// gradient of many samples is written: its operands are larger, and its update waits for others.
std::vector<bool> gradients_by_updates(const Program& program);

}  // namespace mezzo::graph
