#include "mezzo/cli/utf8_output.h"

#include <cstddef>

#include "mezzo/io/utf8.h"

namespace mezzo::cli {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

bool is_control(char c) {
  return (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7f;
}

// The bytes of the character that begins with this one; 0 if none does.
std::size_t length_of(char first) {
  const auto byte = static_cast<unsigned char>(first);
  if (byte < 0x80) return 1;
  if (byte >= 0xC2 && byte < 0xE0) return 2;
  if (byte >= 0xE0 && byte < 0xF0) return 3;
  return byte >= 0xF0 && byte < 0xF5 ? 4 : 0;
}

bool goes_on(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; }

std::string shown(const std::string& character) {
  const bool is_whole = io::find_invalid_utf8(character) == std::string_view::npos;
  return is_whole && !is_control(character.front()) ? character : std::string(kReplacement);
}

}  // namespace

std::string Utf8Output::add(std::string_view bytes) {
  std::string result;
  for (const char byte : bytes) {
    if (!begun_.empty() && !goes_on(byte)) result += end();
    begun_ += byte;
    if (begun_.size() >= length_of(begun_.front())) {
      result += shown(begun_);
      begun_.clear();
    }
  }
  return result;
}

std::string Utf8Output::end() {
  if (begun_.empty()) return {};
  begun_.clear();
  return std::string(kReplacement);
}

}  // namespace mezzo::cli
