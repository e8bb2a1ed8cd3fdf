// A warning for weights beyond the range of their new dtype.
#pragma once

#include <string_view>

#include "mezzo/core/tensor.h"

namespace mezzo::nn {

// Warns if the tensor, converted from a wider dtype, has a dtype of narrow range and values that
// are not finite: those beyond the largest number have become infinities.
void warn_if_beyond_range(std::string_view name, const Tensor& converted);

}  // namespace mezzo::nn
