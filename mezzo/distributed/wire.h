// The number formats in which gradients are exchanged.
#pragma once

#include "mezzo/core/dtype.h"

namespace mezzo::distributed {

// Whether gradients can be exchanged in that dtype.
constexpr bool can_be_exchanged(DType dtype) { return dtype == DType::kF32 || is_lower(dtype); }

inline constexpr const char* kWireDTypes = "f32, bf16 or f16";  // for messages

}  // namespace mezzo::distributed
