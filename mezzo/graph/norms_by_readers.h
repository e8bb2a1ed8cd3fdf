// Finds normalisations that their readers compute.
#pragma once

#include <vector>

#include "mezzo/graph/program.h"

namespace mezzo::graph {

// For each node, whether its first result needs no memory. This is so for a batch normalisation, in
// 16 bits on a CPU, if all its readers are calls of kernels that normalise their input
// (Kernel::normalises). The node's inputs, and the statistics that it finds, must exist until then.
// See mezzo/ops/fusion/pending_norm.h.
std::vector<bool> norms_by_readers(const Program& program);

}  // namespace mezzo::graph
