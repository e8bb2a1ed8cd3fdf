// The effect of mezzo's regions on the operations in the frameworks' data files.
#pragma once

#include <string>
#include <vector>

#include "mezzo/amp/policy.h"

namespace mezzo::frameworks {

// The names in common.py, including those of operations that mezzo names differently.
std::vector<std::string> operation_names();

// The result of the operation in a region of the policy, in the format of the data files. It is the
// dtype of the result, `f32 from bf16` if an f32 input was rounded first, `bf16 from f32` if a
// 16-bit result was computed from the unrounded f32 input, or `refused`. `inputs`: `f32`, a 16-bit
// dtype, or `mixed`, where all inputs but the first are f32.
std::string answer(const std::string& operation, const std::string& inputs,
                   const amp::Policy& policy);

// The precision class of the operation's definition in that dtype: `lower`, `follow`, ...
std::string class_of(const std::string& operation, DType lower);

}  // namespace mezzo::frameworks
