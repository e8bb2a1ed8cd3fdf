// How the tiles of a call are divided among threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "mezzo/core/math.h"
#include "mezzo/core/parallel.h"

namespace mezzo::kernels::attention {

// Multiplications per thread from which on another thread saves time.
inline constexpr double kGrainProducts = 1 << 17;

// A grain for parallel_for() over `units` that take so many multiplications together.
inline std::int64_t grain_of(std::int64_t units, double products) {
  const double each = products / static_cast<double>(std::max<std::int64_t>(units, 1));
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(kGrainProducts / std::max(each, 1.0)));
}

// Position `i` of `n` in the order first, last, second, last but one, ...: with causal attention a
// tile takes the longer the later it is, and every range of this order takes about as long.
inline std::int64_t from_both_ends(std::int64_t i, std::int64_t n) {
  return i % 2 == 0 ? i / 2 : n - 1 - i / 2;
}

}  // namespace mezzo::kernels::attention
