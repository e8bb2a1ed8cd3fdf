// Random draws of the transforms, and checks of their parameters.
#pragma once

#include <cstdint>
#include <string_view>

#include "mezzo/core/error.h"
#include "mezzo/core/random.h"

namespace mezzo::data {

inline std::int64_t below(Generator& random, std::int64_t bound) {
  return static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(bound)));
}

inline double uniform_in(Generator& random, double low, double high) {
  return low + (high - low) * static_cast<double>(random.uniform());
}

inline bool happens(Generator& random, double probability) {
  return static_cast<double>(random.uniform()) < probability;
}

inline void check_probability(std::string_view op, double probability) {
  check_arg(probability >= 0 && probability <= 1, op,
            "the probability must be from 0 to 1: ", probability);
}

}  // namespace mezzo::data
