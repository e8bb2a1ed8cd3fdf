// Random streams named by three numbers, so that the draws for an image depend on nothing else.
#pragma once

#include <cstdint>

#include "mezzo/core/random.h"

namespace mezzo::data {

// A separate stream for each (seed, major, minor). The randomness of an image uses (seed, epoch,
// index). The name is hashed into the stream's 64-bit key, so that streams do not overlap.
inline Generator stream_of(std::uint64_t seed, std::uint64_t major, std::uint64_t minor) {
  const auto words =
      philox({static_cast<std::uint32_t>(major), static_cast<std::uint32_t>(major >> 32),
              static_cast<std::uint32_t>(minor), static_cast<std::uint32_t>(minor >> 32)},
             {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
  return Generator(std::uint64_t{words[0]} << 32 | words[1]);
}

// The minor number of the stream from which an epoch's order is drawn; never an index.
inline constexpr std::uint64_t kOrderStream = ~std::uint64_t{0};

}  // namespace mezzo::data
