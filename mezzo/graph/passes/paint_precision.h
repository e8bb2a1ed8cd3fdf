// The pass that chooses the precision of each node.
#pragma once

#include <cstddef>
#include <vector>

#include "mezzo/graph/program.h"

namespace mezzo::graph {

// Sets paint and reason of every node by the policies of the regions; returns the number of nodes
// that are painted in 16 bits.
//
// Nodes that autocast casts are painted accordingly. Autocast leaves other nodes in the dtype of
// their inputs, because it decides call by call. A program shows both sides of a node, so these
// nodes are painted in four steps, which are those of TF grappler's auto_mixed_precision and of
// OneFlow's AutoMixedPrecision pass:
//
//   1. Nodes that compute on results of black nodes stay f32: black flows forward through gray
//      nodes, and through clear ones on the way to gray or black.
//   2. Nodes between white nodes become white, such as a residual sum.
//   3. Clear nodes next to white become white: after it through any number of clear nodes, before
//      it only if nobody else reads their results.
//   4. Nodes between white and an end, a value that is returned or that nobody reads, become
//      white.
//
// All other nodes compute in the dtype of their inputs. Steps 2 to 4 are undone where they would
// cost a cast, or with as many casts convert more elements: so there are never more casts than
// autocast makes. (TF and OneFlow paint there all the same.) Painting never changes a precision
// that was requested: a node outside of the region, in a region of another lower dtype or without a
// colour (see mark_of()) reads what autocast would give it. So undecided nodes that it depends on
// are left alone.
//
// Throws ArgumentError if an operation is refused in 16 bits, as autocast does.
std::size_t paint_precision(Program& program);

// The dtypes of the values under autocast, which keeps undecided nodes in the dtype of their
// inputs.
std::vector<DType> dtypes_of_autocast(Program program);

}  // namespace mezzo::graph
