// Normalisations that are not computed where they stand, but by those who read them.
#pragma once

#include <vector>

#include "mezzo/graph/program.h"

namespace mezzo::graph {

// For each node, whether its result needs no memory: a batch normalisation that the backward pass
// computes again (recompute_norms) for gradients by convolutions' weights alone, in 16 bits on a
// CPU. Their kernel normalises while it copies its images; what the node reads has to be there
// until then. See mezzo/ops/batch_norm_again.h.
std::vector<bool> norms_by_readers(const Program& program);

}  // namespace mezzo::graph
