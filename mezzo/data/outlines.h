// The ten outlines of the set `shapes` as distance functions.
#pragma once

#include <cstdint>

namespace mezzo::data {

inline constexpr std::int64_t kOutlines = 10;

// The approximate signed distance of (x, y) from outline `kind` (0 to 9), negative inside. The
// outlines have radius 1 about the origin.
float outline_distance(std::int64_t kind, float x, float y);

}  // namespace mezzo::data
