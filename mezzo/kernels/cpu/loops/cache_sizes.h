// The sizes of the caches for which kernels cut their work into pieces.
#pragma once

#include <cstdint>

namespace mezzo::kernels {

// Bytes of a core's caches, on CPUs like those that the kernels were measured on. A plan could ask
// the machine instead. But where sums are cut decides their bits, and a machine that shows less of
// its caches, as virtual ones do, should not give other results.
struct CacheSizes {
  std::int64_t first;       // for data
  std::int64_t second;      // a core's own
  std::int64_t third_part;  // what a core may count on of the cache that all share
};

// CPUs with tiles: Sapphire Rapids and later.
inline constexpr CacheSizes kCachesWithTiles{
    .first = 48 << 10, .second = 2 << 20, .third_part = 1 << 20};
// CPUs with 512-bit vectors, but without tiles: Zen 4 has 1 MB, Ice Lake 1.25 MB.
inline constexpr CacheSizes kCachesWithVectors{
    .first = 32 << 10, .second = 1 << 20, .third_part = 1 << 20};

// Bytes of this machine's second-level cache, or 1 MB if the system does not say. For weight
// gradients, whose sums have been cut so from the beginning.
std::int64_t second_level_cache();

}  // namespace mezzo::kernels
