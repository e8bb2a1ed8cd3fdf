// Pictures of programs, for Graphviz.
#pragma once

#include <string>

#include "mezzo/graph/program.h"

namespace mezzo::graph {

// The program in Graphviz's language, for `dot -Tsvg`. A rounded box is a call, coloured by the
// dtype that it computes in; a plain box is host work; small ovals are tensors that exist between
// runs. An edge is a value, labelled with dtype and shape. A dotted edge leads to host work without
// inputs from the node before it. The phases are framed.
std::string to_dot(const Program& program);

}  // namespace mezzo::graph
