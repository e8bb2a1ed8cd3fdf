// The pass that puts casts into a painted program.
#pragma once

#include <cstddef>

#include "mezzo/graph/program.h"

namespace mezzo::graph {

// Casts the inputs of painted nodes, promotes those that must agree, rounds the parameters of
// normalisations that are not kept in f32, and states all dtypes that follow. A value is cast once
// per dtype, right before the first node that reads it so; what the program returns keeps the dtype
// it had. Paints and policies are forgotten, reasons are not. Gives the number of casts. Host work
// of the forward pass is taken not to change what is cast.
//
// Throws ArgumentError if an operation does not take the dtypes that reach it.
std::size_t insert_casts(Program& program);

}  // namespace mezzo::graph
