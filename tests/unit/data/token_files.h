// Files of tokens for tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "tests/unit/data/temp_folder.h"

namespace mezzo::data {

using TokenList = std::vector<std::int64_t>;

// The numbers in so many bytes each, the least significant byte first.
inline Bytes stored(const TokenList& numbers, int width) {
  Bytes bytes;
  for (const std::int64_t number : numbers) {
    for (int i = 0; i < width; ++i) {
      bytes.push_back(static_cast<std::uint8_t>(static_cast<std::uint64_t>(number) >> (8 * i)));
    }
  }
  return bytes;
}

// 256 i32 that begin with these.
inline Bytes header(const TokenList& numbers) {
  TokenList all(256);
  std::copy(numbers.begin(), numbers.end(), all.begin());
  return stored(all, 4);
}

inline Bytes joined(Bytes first, const Bytes& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

// begin, begin + 1, ...
inline TokenList counted(std::int64_t count, std::int64_t begin = 0) {
  TokenList numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), begin);
  return numbers;
}

}  // namespace mezzo::data
