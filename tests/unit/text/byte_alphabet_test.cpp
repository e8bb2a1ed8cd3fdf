#include "mezzo/text/byte_alphabet.h"

#include <set>

#include <gtest/gtest.h>

namespace mezzo::text {
namespace {

TEST(ByteAlphabet, WritesBytesAsGpt2Does) {
  EXPECT_EQ(in_alphabet(" a\n~"), "\u0120a\u010a~");
  EXPECT_EQ(in_alphabet(std::string_view("\0\x7f\xad\xff", 4)), "\u0100\u0121\u0143\u00ff");
}

TEST(ByteAlphabet, EveryByteComesBack) {
  std::set<std::string> characters;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const std::string bytes(1, static_cast<char>(byte));
    characters.insert(in_alphabet(bytes));
    EXPECT_EQ(from_alphabet(in_alphabet(bytes)), bytes) << byte;
  }
  EXPECT_EQ(characters.size(), 256U);
}

TEST(ByteAlphabet, OtherCharactersStandForNoByte) {
  for (const char* text :
       {" ", "a\n", "\u00a0", "\u00ad", "\u0144", "\u2581", "\U0001f600", "\x7f"}) {
    EXPECT_EQ(from_alphabet(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace mezzo::text
