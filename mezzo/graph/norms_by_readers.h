// Normalisations that are not computed where they stand, but by those who read them.
#pragma once

#include <vector>

#include "mezzo/graph/program.h"

namespace mezzo::graph {

// For each node, whether its first result needs no memory: a batch normalisation, in 16 bits on a
// CPU, all of whose readers are calls of kernels that normalise what they read
// (Kernel::normalises). What the node reads, and the statistics that it finds, have to be there
// until then. See mezzo/ops/fusion/pending_norm.h.
std::vector<bool> norms_by_readers(const Program& program);

}  // namespace mezzo::graph
