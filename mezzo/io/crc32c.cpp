#include "mezzo/io/crc32c.h"

#include <array>
#include <bit>
#include <cstring>

namespace mezzo::io {
namespace {

static_assert(std::endian::native == std::endian::little, "words are read as little-endian");

constexpr std::uint32_t kPolynomial = 0x82f63b78U;  // 0x1edc6f41 with its bits reversed
constexpr std::size_t kSlices = 8;

using Tables = std::array<std::array<std::uint32_t, 256>, kSlices>;

// tables[k][b] is the contribution of byte b to the checksum when k more bytes follow it. Eight
// bytes thus take eight independent look-ups ("slicing by 8").
constexpr Tables make_tables() {
  Tables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1U) != 0 ? kPolynomial : 0U);
    tables[0][byte] = crc;
  }
  for (std::size_t k = 1; k < kSlices; ++k) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t crc = tables[k - 1][byte];
      tables[k][byte] = (crc >> 8) ^ tables[0][crc & 0xffU];
    }
  }
  return tables;
}

constexpr Tables kTables = make_tables();

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before) {
  std::uint32_t crc = ~before;
  while (bytes.size() >= kSlices) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), kSlices);
    word ^= crc;
    crc = 0;
    for (std::size_t k = 0; k < kSlices; ++k) {
      crc ^= kTables[kSlices - 1 - k][(word >> (8 * k)) & 0xffU];
    }
    bytes = bytes.subspan(kSlices);
  }
  for (const std::byte byte : bytes) {
    crc = (crc >> 8) ^ kTables[0][(crc ^ std::to_integer<std::uint32_t>(byte)) & 0xffU];
  }
  return ~crc;
}

std::uint32_t crc32c(std::string_view text, std::uint32_t before) {
  return crc32c(std::as_bytes(std::span(text)), before);
}

}  // namespace mezzo::io
