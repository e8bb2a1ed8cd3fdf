// Numbers in the bytes of files.
#pragma once

#include <bit>
#include <cstddef>
#include <cstring>
#include <span>

namespace mezzo::io {

static_assert(std::endian::native == std::endian::little, "the formats are little-endian");

// The number at that position, all of which must lie within the bytes.
template <class Number>
Number number_at(std::span<const std::byte> bytes, std::size_t position) {
  Number number{};
  std::memcpy(&number, bytes.data() + position, sizeof(Number));
  return number;
}

}  // namespace mezzo::io
