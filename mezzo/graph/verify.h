// The verifier: checks what must hold for every program that can run.
#pragma once

#include "mezzo/graph/program.h"

namespace mezzo::graph {

// Throws ArgumentError with the text of the wrong node unless every value is made once and before
// it is read, every node's results are those that its operation infers from its inputs, and every
// value that a result may overwrite exists and has the same size. Computes nothing.
void verify(const Program& program);

}  // namespace mezzo::graph
