// Formats bytes for error messages.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace mezzo::data {

// Formats bytes as in `ff d8 ff`.
inline std::string hex_text(std::span<const std::uint8_t> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t byte : bytes) {
    if (!text.empty()) text += ' ';
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

}  // namespace mezzo::data
