#include "mezzo/report/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "mezzo/io/utf8.h"

namespace mezzo::report {
namespace {

std::string to_text(double value, std::chars_format format, int digits) {
  std::array<char, 512> buffer{};
  const auto [end, error] =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, format, digits);
  return {buffer.data(), error == std::errc() ? end : buffer.data()};
}

}  // namespace

std::string escape(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (const char c : io::escape_invalid_utf8(text)) {
    switch (c) {
      case '&': result += "&amp;"; break;
      case '<': result += "&lt;"; break;
      case '>': result += "&gt;"; break;
      case '"': result += "&quot;"; break;
      case '\'': result += "&#39;"; break;
      default: result += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
    }
  }
  return result;
}

std::string shortened(const std::string& name, std::size_t most) {
  if (name.size() <= most) return name;
  std::size_t begin = name.size() - most + 1;
  // Does not cut within a character: continuation bytes of UTF-8 are 10xxxxxx.
  while (begin < name.size() && (static_cast<unsigned char>(name[begin]) & 0xc0U) == 0x80) ++begin;
  return "…" + name.substr(begin);
}

std::string format_number(double value, int digits) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return to_text(value, std::chars_format::general, digits);
}

std::string format_fixed(double value, int digits) {
  return std::isfinite(value) ? to_text(value, std::chars_format::fixed, digits)
                              : format_number(value);
}

std::string format_part(double part) {
  if (part == 0) return "none";
  if (part == 1) return "all";
  const double percent = 100 * part;
  if (percent < 0.01) return "less than 0.01 %";
  if (percent > 99.99) return "more than 99.99 %";
  return format_fixed(percent, percent < 10 ? 2 : 1) + " %";
}

std::string power_of_two(int exponent) {
  constexpr std::array<const char*, 10> kRaised{"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
  std::string result = exponent < 0 ? "2⁻" : "2";
  for (const char digit : std::to_string(std::abs(exponent))) {
    result += kRaised[static_cast<std::size_t>(digit - '0')];
  }
  return result;
}

std::string format_scale(double scale) {
  int exponent = 0;
  const bool is_power = std::isfinite(scale) && std::frexp(scale, &exponent) == 0.5;
  return is_power && scale != 1 ? power_of_two(exponent - 1) : format_number(scale, 6);
}

std::string base64(std::span<const std::byte> bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::span part = bytes.subspan(i, std::min<std::size_t>(3, bytes.size() - i));
    std::uint32_t bits = 0;  // three bytes, zeros where they are missing
    for (std::size_t k = 0; k < 3; ++k) {
      bits = bits << 8 | (k < part.size() ? std::to_integer<std::uint32_t>(part[k]) : 0);
    }
    for (std::size_t k = 0; k < 4; ++k) {
      text += k <= part.size() ? kDigits[bits >> (18 - 6 * k) & 63] : '=';
    }
  }
  return text;
}

std::string count_of(std::int64_t count, std::string_view noun) {
  return std::to_string(count) + " " + std::string(noun) + (count == 1 ? "" : "s");
}

}  // namespace mezzo::report
