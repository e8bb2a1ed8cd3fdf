// Shape inference of a node for inputs that may have changed.
#pragma once

#include <vector>

#include "mezzo/graph/program.h"

namespace mezzo::graph {

// The outputs of a call of that operation for inputs of these specs (null for absent ones), as
// call() infers them; inputs that must agree in dtype do. Throws ArgumentError as call() does.
std::vector<ValueSpec> infer_specs(const OpDef& op, const Attrs& attrs,
                                   const std::vector<const ValueSpec*>& inputs);

}  // namespace mezzo::graph
