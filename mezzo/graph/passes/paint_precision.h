// The pass that chooses the precision of each node.
#pragma once

#include <cstddef>
#include <vector>

#include "mezzo/graph/program.h"

namespace mezzo::graph {

// Sets paint and reason of every node by the policies of the regions; gives the number of nodes
// that are painted in 16 bits.
//
// What autocast casts is painted as it casts. What it leaves to what comes it must decide call by
// call, where a program shows both sides, so these nodes are painted in four steps, which are those
// of TF grappler's auto_mixed_precision and of OneFlow's AutoMixedPrecision pass:
//
//   1. What computes on results of black nodes stays f32: black flows forward through gray nodes,
//      and through clear ones on the way to gray or black.
//   2. What is between white nodes becomes white, such as a residual sum.
//   3. Clear nodes next to white become white: after it through any number of clear nodes, before
//      it as far as nobody else reads what they give.
//   4. What is between white and an end, a value that is returned or that nobody reads, becomes
//      white.
//
// All other nodes take what comes. Steps 2 to 4 are undone where they would cost a cast, or with as
// many casts convert more elements: so there are never more casts than autocast makes. (TF and
// OneFlow paint there all the same.) A precision that somebody asked for is not painted across: a
// node outside of the region, in one of another lower dtype or without a colour (see mark_of())
// reads what autocast would give it, so what it depends on through undecided nodes is left alone.
//
// Throws ArgumentError if an operation is refused in 16 bits, as autocast does.
std::size_t paint_precision(Program& program);

// The dtypes of the values as autocast makes them, which decides nothing that is left to what
// comes.
std::vector<DType> dtypes_of_autocast(Program program);

}  // namespace mezzo::graph
