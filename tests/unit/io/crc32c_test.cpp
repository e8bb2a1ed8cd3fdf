#include "mezzo/io/crc32c.h"

#include <string>

#include <gtest/gtest.h>

namespace mezzo::io {
namespace {

// The definition, bit by bit.
std::uint32_t plain_crc(std::string_view text) {
  std::uint32_t crc = ~0U;
  for (const char c : text) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1U) != 0 ? 0x82f63b78U : 0U);
  }
  return ~crc;
}

std::string sample(std::size_t size) {
  std::string text;
  for (std::size_t i = 0; i < size; ++i) text += static_cast<char>(i * i + 7 * i);
  return text;
}

// The values of RFC 3720, B.4, and the usual check value.
TEST(Crc32c, KnownValues) {
  EXPECT_EQ(crc32c(""), 0U);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283U);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aaU);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43U);
  std::string rising;
  for (char c = 0; c < 32; ++c) rising += c;
  EXPECT_EQ(crc32c(rising), 0x46dd794eU);
}

TEST(Crc32c, EveryLengthAndStartIsThatOfTheDefinition) {
  const std::string text = sample(100);
  for (std::size_t start = 0; start < 9; ++start) {
    for (std::size_t size = 0; start + size <= text.size(); ++size) {
      const std::string_view part = std::string_view(text).substr(start, size);
      EXPECT_EQ(crc32c(part), plain_crc(part)) << start << " " << size;
    }
  }
}

TEST(Crc32c, PiecesGiveTheWhole) {
  const std::string text = sample(50);
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    const std::uint32_t first = crc32c(std::string_view(text).substr(0, cut));
    EXPECT_EQ(crc32c(std::string_view(text).substr(cut), first), crc32c(text)) << cut;
  }
}

}  // namespace
}  // namespace mezzo::io
