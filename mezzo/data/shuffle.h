// Shuffles integers.
#pragma once

#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "mezzo/core/random.h"

namespace mezzo::data {

// Fisher-Yates: every order is equally likely.
inline void shuffle(std::span<std::int64_t> order, Generator random) {
  for (std::size_t left = order.size(); left > 1; --left) {
    std::swap(order[left - 1], order[random.below(left)]);
  }
}

// 0, 1, ..., count - 1.
inline std::vector<std::int64_t> count_to(std::int64_t count) {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

}  // namespace mezzo::data
