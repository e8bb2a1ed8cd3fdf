#include "mezzo/io/utf8.h"

#include <cstdint>

namespace mezzo::io {
namespace {

std::uint32_t byte_at(std::string_view text, std::size_t i) {
  return static_cast<unsigned char>(text[i]);
}

bool is_continuation(std::uint32_t byte) { return (byte & 0xc0U) == 0x80U; }

// The length of the well-formed character that begins at `i`, or 0.
std::size_t character_length(std::string_view text, std::size_t i) {
  const std::uint32_t first = byte_at(text, i);
  if (first < 0x80) return 1;
  if (first < 0xc2 || first > 0xf4) return 0;  // continuations, overlong forms, above U+10FFFF
  const std::size_t length = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  if (text.size() - i < length) return 0;
  for (std::size_t k = 1; k < length; ++k) {
    if (!is_continuation(byte_at(text, i + k))) return 0;
  }
  const std::uint32_t second = byte_at(text, i + 1);
  const bool overlong = (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
  const bool surrogate = first == 0xed && second >= 0xa0;
  const bool too_large = first == 0xf4 && second >= 0x90;
  return overlong || surrogate || too_large ? 0 : length;
}

}  // namespace

std::size_t find_invalid_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = character_length(text, i);
    if (length == 0) return i;
    i += length;
  }
  return std::string_view::npos;
}

std::string escape_invalid_utf8(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string result;
  for (;;) {
    const std::size_t at = find_invalid_utf8(text);
    result += text.substr(0, at);
    if (at == std::string_view::npos) return result;
    const auto byte = static_cast<unsigned char>(text[at]);
    result += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
    text.remove_prefix(at + 1);
  }
}

std::string in_quotes(std::string_view text, std::size_t limit) {
  std::size_t end = text.size();
  if (end > limit) {
    end = limit;
    while (end > 0 && is_continuation(byte_at(text, end))) --end;
  }
  std::string result = "'";
  for (const char c : text.substr(0, end)) {
    result += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  }
  result += end < text.size() ? "...'" : "'";
  return result;
}

}  // namespace mezzo::io
