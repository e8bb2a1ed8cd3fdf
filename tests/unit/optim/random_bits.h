// The random bits of stochastic rounding, by their definition.
#pragma once

#include <cstdint>

#include "mezzo/core/random.h"

namespace mezzo::test {

// The 16 bits with number i of a stream.
inline std::uint32_t bits_at(RandomPosition position, std::uint64_t i) {
  const std::uint64_t word = position.offset + i / 2;
  const auto block = word / 4;
  const std::uint32_t both =
      philox({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), 0, 0},
             {static_cast<std::uint32_t>(position.seed),
              static_cast<std::uint32_t>(position.seed >> 32)})[word % 4];
  return i % 2 == 0 ? both & 0xffffU : both >> 16;
}

}  // namespace mezzo::test
