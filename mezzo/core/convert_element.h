// Conversion of one element between dtypes: the rules of copy_elements(), for every device.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "mezzo/core/float8.h"
#include "mezzo/core/half.h"

namespace mezzo {

// The types that are converted by way of f32.
template <class T>
inline constexpr bool kIsHalf = std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16> ||
                                std::is_same_v<T, Float8E4M3> || std::is_same_v<T, Float8E5M2>;

// Rounds towards zero. A value out of range becomes the nearest integer in range, and NaN becomes
// 0; the language leaves both undefined.
template <class Integer>
constexpr Integer to_integer(double value) {
  using Limits = std::numeric_limits<Integer>;
  // A double cannot hold the largest i64; it can hold the integer after it.
  constexpr double kBeyond = 2.0 * static_cast<double>(std::uint64_t{1} << (Limits::digits - 1));
  if (value != value) return 0;
  if (value <= static_cast<double>(Limits::lowest())) return Limits::lowest();
  if (value >= kBeyond) return Limits::max();
  return static_cast<Integer>(value);
}

// An integer that a double holds exactly and that rounds to 16 bits as `value` does. Of a value of
// more than 53 bits, the last 11 are dropped; if they were not zero, the last remaining bit is set
// (rounding to odd). Rounding to the nearest double first could create a tie that `value` is not.
constexpr double exact_for_half(std::int64_t value) {
  constexpr std::int64_t kExact = std::int64_t{1} << 53;
  if (value >= -kExact && value <= kExact) return static_cast<double>(value);
  constexpr std::int64_t kDropped = (1 << 11) - 1;
  const bool inexact = (value & kDropped) != 0;
  return static_cast<double>((value & ~kDropped) | (inexact ? kDropped + 1 : 0));
}

// An f32 value that rounds to 16 bits as `value` does, even where f32 cannot hold `value`.
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
