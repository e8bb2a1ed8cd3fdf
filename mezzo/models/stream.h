// The beginning of a residual stream.
#pragma once

#include "mezzo/core/tensor.h"

namespace mezzo::models {

// dropout(x, p, training) in the dtype of x, whatever region surrounds it. At O2, a region would
// round x to 16 bits first; with x the whole stream would be 16 bits, since add_residual() keeps
// the dtype of its operands.
Tensor drop_stream(const Tensor& x, double p, bool training);

}  // namespace mezzo::models
