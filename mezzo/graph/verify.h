// What holds of every program that can run.
#pragma once

#include "mezzo/graph/program.h"

namespace mezzo::graph {

// Throws ArgumentError with the text of the node that is wrong unless every value is made once and
// before it is read, every node's results are what its operation makes of its inputs, and what a
// result may be written over is there and as large. Computes nothing.
void verify(const Program& program);

}  // namespace mezzo::graph
