// An element of one dtype as another: the rules of copy_elements(), on every device.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "mezzo/core/half.h"

namespace mezzo {

template <class T>
inline constexpr bool kIsHalf = std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>;

// Towards zero; what does not fit becomes the nearest number that does, and NaN 0, where the
// language leaves it undefined.
template <class Integer>
constexpr Integer to_integer(double value) {
  using Limits = std::numeric_limits<Integer>;
  // The largest i64 is no double: the next one is its successor.
  constexpr double kBeyond = 2.0 * static_cast<double>(std::uint64_t{1} << (Limits::digits - 1));
  if (value != value) return 0;
  if (value <= static_cast<double>(Limits::lowest())) return Limits::lowest();
  if (value >= kBeyond) return Limits::max();
  return static_cast<Integer>(value);
}

// A whole number that a double holds exactly and that rounds to 16 bits as `value` does: of more
// than 53 bits the last 11 are dropped, and what was lost shows in the last that is left (rounding
// to odd). Rounding to a double first could make a tie of what is none.
constexpr double exact_for_half(std::int64_t value) {
  constexpr std::int64_t kExact = std::int64_t{1} << 53;
  if (value >= -kExact && value <= kExact) return static_cast<double>(value);
  constexpr std::int64_t kDropped = (1 << 11) - 1;
  const bool inexact = (value & kDropped) != 0;
  return static_cast<double>((value & ~kDropped) | (inexact ? kDropped + 1 : 0));
}

// What rounds to 16 bits as `value` does, which f32 itself might not hold.
template <class From>
constexpr float f32_for_half(From value) {
  if constexpr (std::is_integral_v<From>) {
    return rounded_to_odd(exact_for_half(value));
  } else if constexpr (std::is_same_v<From, double>) {
    return rounded_to_odd(value);
  } else {
    return static_cast<float>(value);
  }
}

template <class To, class From>
constexpr To convert_element(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (kIsHalf<From>) {
    return convert_element<To>(static_cast<float>(value));
  } else if constexpr (kIsHalf<To>) {
    return To(f32_for_half(value));
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To> &&
                       !std::is_same_v<To, bool>) {
    return to_integer<To>(value);
  } else {
    return static_cast<To>(value);
  }
}

}  // namespace mezzo
