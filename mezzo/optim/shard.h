// How the elements of a parameter are divided among processes that share the work of an optimizer.
#pragma once

#include <algorithm>
#include <cstdint>

#include "mezzo/core/math.h"

namespace mezzo::optim {

// One of `parts` equal shares, numbered from 0.
struct Shard {
  int part = 0;
  int parts = 1;
  bool operator==(const Shard&) const = default;
};

// Elements of a parameter, in the order in which they lie in memory.
struct ShardRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t size() const { return end - begin; }
};

// Parts begin at multiples of this, so that blocks of state with a common scale, and of four random
// words for 16-bit numbers, are the same whatever the number of parts.
inline constexpr std::int64_t kShardBlock = 256;

// The part of a parameter with `numel` elements. Parts differ by at most one block; those of small
// parameters may be empty.
inline ShardRange range_of(std::int64_t numel, const Shard& shard) {
  const std::int64_t blocks = ceil_div(numel, kShardBlock);
  const auto begin_of = [&](std::int64_t part) {
    return std::min(numel, part * blocks / shard.parts * kShardBlock);
  };
  return {begin_of(shard.part), begin_of(shard.part + 1)};
}

// The number of elements of the largest part.
inline std::int64_t largest_part(std::int64_t numel, int parts) {
  const std::int64_t blocks = ceil_div(ceil_div(numel, kShardBlock), std::int64_t{parts});
  return std::min(numel, blocks * kShardBlock);
}

}  // namespace mezzo::optim
