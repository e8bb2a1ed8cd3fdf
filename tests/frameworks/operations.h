// What mezzo's regions do to the operations that the frameworks are asked about.
#pragma once

#include <string>
#include <vector>

#include "mezzo/amp/policy.h"

namespace mezzo::frameworks {

// The names of common.py; those that mezzo has under another name included.
std::vector<std::string> operation_names();

// What comes out of the operation in a region of the policy, in the words of the data files: the
// dtype of the result; `f32 from bf16` if an f32 input was rounded first, `bf16 from f32` if a
// 16-bit result was computed from the f32 input as it is; `refused`. `inputs`: `f32`, a 16-bit
// dtype, or `mixed`, where all but the first are f32.
std::string answer(const std::string& operation, const std::string& inputs,
                   const amp::Policy& policy);

// The precision class of the operation's definition in that dtype: `lower`, `follow`, ...
std::string class_of(const std::string& operation, DType lower);

}  // namespace mezzo::frameworks
