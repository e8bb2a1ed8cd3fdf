// The pass that inserts casts into a painted program.
#pragma once

#include <cstddef>

#include "mezzo/graph/program.h"

namespace mezzo::graph {

// Casts the inputs of painted nodes, promotes those that must agree, rounds the parameters of
// normalisations that are not kept in f32, and infers all resulting dtypes. A value is cast once
// per dtype, right before the first node that reads it so; outputs of the program keep their
// dtypes. Paints and policies are removed, reasons are kept. Returns the number of casts. Host work
// of the forward pass is assumed not to change values that are cast.
//
// Throws ArgumentError if an operation does not accept the dtypes of its inputs.
std::size_t insert_casts(Program& program);

}  // namespace mezzo::graph
