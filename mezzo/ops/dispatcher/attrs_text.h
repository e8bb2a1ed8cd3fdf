// Reading attributes back from text: the counterpart of append_text().
#pragma once

#include <array>
#include <charconv>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "mezzo/core/dtype.h"
#include "mezzo/core/error.h"
#include "mezzo/core/shape.h"

namespace mezzo {

// parse_text(text, value) reads what append_text() prints of a value, and returns whether it could.
// Other types define overloads next to themselves.
bool parse_text(std::string_view text, bool& value);
bool parse_text(std::string_view text, Shape& shape);
bool parse_text(std::string_view text, DType& dtype);

template <class Number>
requires(std::is_arithmetic_v<Number> &&
         !std::is_same_v<Number, bool>) bool parse_text(std::string_view text, Number& number) {
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, number);
  return result.ec == std::errc() && result.ptr == end;
}

// For types with few values: finds the value that prints as the text.
template <class T>
bool parse_one_of(std::string_view text, T& value, std::span<const T> all) {
  for (const T& candidate : all) {
    if (concat(candidate) != text) continue;
    value = candidate;
    return true;
  }
  return false;
}

template <class T, std::size_t N>
bool parse_one_of(std::string_view text, T& value, const T (&all)[N]) {
  return parse_one_of<T>(text, value, std::span<const T>(all));
}

inline bool parse_text(std::string_view text, Format& format) {
  return parse_one_of(text, format, {Format::kContiguous, Format::kChannelsLast});
}

// Splits a text at separators, except within brackets.
std::vector<std::string_view> split_text(std::string_view text, std::string_view separator);

// The parts of `[a, b]`; returns whether the text has that form.
bool split_list(std::string_view text, std::vector<std::string_view>& parts);

template <class T, std::size_t N>
bool parse_text(std::string_view text, std::array<T, N>& values) {
  std::vector<std::string_view> parts;
  if (!split_list(text, parts) || parts.size() != N) return false;
  for (std::size_t i = 0; i < N; ++i) {
    if (!parse_text(parts[i], values[i])) return false;
  }
  return true;
}

// A named member of an aggregate that can be read from text.
struct FieldReader {
  const char* name;
  bool (*read)(std::string_view text, void* aggregate);
  // Gives the member its default, if a text may leave it out; null if it may not.
  void (*leave_out)(void* aggregate) = nullptr;
};

// Reads `axis=1 start=0` into the members of an aggregate, each exactly once, or at most once if it
// may be left out. Returns what is wrong, or an empty string.
std::string read_fields(std::string_view text, std::span<const FieldReader> readers,
                        void* aggregate);

}  // namespace mezzo
