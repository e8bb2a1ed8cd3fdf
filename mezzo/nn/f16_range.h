// A warning for weights beyond the range of f16.
#pragma once

#include <string_view>

#include "mezzo/core/tensor.h"

namespace mezzo::nn {

// Warns if the tensor, converted from a wider dtype, is f16 and has values that are not finite:
// those beyond 65504 have become infinities.
void warn_if_beyond_f16(std::string_view name, const Tensor& converted);

}  // namespace mezzo::nn
