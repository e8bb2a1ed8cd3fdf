#include "mezzo/text/byte_alphabet.h"

#include <array>

namespace mezzo::text {
namespace {

constexpr unsigned kBytes = 256;
constexpr char32_t kFirstOther = 0x100;
constexpr unsigned kOthers = 68;

bool is_shown(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

struct Alphabet {
  std::array<char32_t, kBytes> characters{};
  std::array<unsigned char, kFirstOther + kOthers> bytes{};
  std::array<bool, kFirstOther + kOthers> is_known{};

  Alphabet() {
    char32_t next = kFirstOther;
    for (unsigned byte = 0; byte < kBytes; ++byte) {
      const char32_t character = is_shown(byte) ? static_cast<char32_t>(byte) : next++;
      characters[byte] = character;
      bytes[character] = static_cast<unsigned char>(byte);
      is_known[character] = true;
    }
  }
};

const Alphabet& alphabet() {
  static const Alphabet kAlphabet;
  return kAlphabet;
}

}  // namespace

char32_t character_of_byte(unsigned char byte) { return alphabet().characters[byte]; }

std::string in_alphabet(std::string_view bytes) {
  std::string token;
  for (const char byte : bytes) {
    const char32_t character = character_of_byte(static_cast<unsigned char>(byte));
    if (character < 0x80) {
      token += static_cast<char>(character);
    } else {
      token += static_cast<char>(0xc0U | (character >> 6U));
      token += static_cast<char>(0x80U | (character & 0x3fU));
    }
  }
  return token;
}

std::optional<std::string> from_alphabet(std::string_view token) {
  std::string bytes;
  for (std::size_t i = 0; i < token.size(); ++i) {
    char32_t character = static_cast<unsigned char>(token[i]);
    if (character >= 0xe0) return std::nullopt;  // of three bytes or more, beyond the alphabet
    if (character >= 0x80 && ++i < token.size()) {
      character = (character & 0x1fU) << 6U | (static_cast<unsigned char>(token[i]) & 0x3fU);
    }
    if (character >= alphabet().is_known.size() || !alphabet().is_known[character]) {
      return std::nullopt;
    }
    bytes += static_cast<char>(alphabet().bytes[character]);
  }
  return bytes;
}

}  // namespace mezzo::text
