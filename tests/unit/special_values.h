// Special values for tests of arithmetic and of overflows.
#pragma once

#include <limits>

namespace mezzo {

inline constexpr float kInf = std::numeric_limits<float>::infinity();
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

}  // namespace mezzo
