// The two floating types of eight bits as storage, and their exact conversions.
//
// They are those of the OCP's "8-bit Floating Point Specification" (revision 1.0, 2023). Rounding
// is to nearest, ties to even. Subnormal numbers are kept in both directions. The two differ at
// their upper ends:
//
//   type   bits of sign, exponent, fraction   largest   smallest   infinity   NaN
//   e4m3   1, 4, 3                            448       2^-9       none       0x7f, 0xff
//   e5m2   1, 5, 2                            57344     2^-16      0x7c       0x7d ... 0x7f
//
// A number that leaves the range becomes NaN in e4m3 and infinity in e5m2. saturated() makes the
// largest number of it instead. Infinity and NaN themselves never become numbers, in either way:
// they tell of an overflow, and a saturated cast would hide it.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace mezzo {

namespace detail {

// What the two types have in common.
template <int kExponentBits, bool kHasInfinity>
struct Float8Format {
  static constexpr int kFraction = 7 - kExponentBits;
  static constexpr int kBias = (1 << (kExponentBits - 1)) - 1;
  static constexpr std::uint8_t kLargest =
      kHasInfinity ? (((1 << kExponentBits) - 1) << kFraction) - 1 : 0x7e;
  static constexpr std::uint8_t kInfinity = kHasInfinity ? kLargest + 1 : 0x7f;

  // The code of a magnitude rounded as if there were no upper end, up to kInfinity.
  static constexpr std::uint8_t rounded(float magnitude) {
    constexpr int kDropped = 23 - kFraction;
    // The f32 numbers from here on round to 2^(1 - kBias), the smallest normal number, or more.
    constexpr auto kFirstNormal = static_cast<std::uint32_t>(128 - kBias) << 23;
    const auto u = std::bit_cast<std::uint32_t>(magnitude);
    if (u < kFirstNormal) {
      // Adding this power of two aligns the fraction so that one unit in its last place is the
      // smallest subnormal number. The addition itself then rounds to nearest, ties to even.
      constexpr float kAlign =
          std::bit_cast<float>(static_cast<std::uint32_t>(128 - kBias + kDropped) << 23);
      return static_cast<std::uint8_t>(std::bit_cast<std::uint32_t>(magnitude + kAlign) -
                                       std::bit_cast<std::uint32_t>(kAlign));
    }
    const std::uint32_t odd = u >> kDropped & 1U;
    const std::uint32_t whole = (u + (1U << (kDropped - 1)) - 1U + odd) >> kDropped;
    const std::uint32_t code = whole - (static_cast<std::uint32_t>(127 - kBias) << kFraction);
    return code < kInfinity ? static_cast<std::uint8_t>(code) : kInfinity;
  }

  static constexpr std::uint8_t code_of(float value, bool saturates) {
    const auto u = std::bit_cast<std::uint32_t>(value);
    const auto sign = static_cast<std::uint8_t>(u >> 24 & 0x80U);
    const std::uint32_t magnitude = u & 0x7fffffffU;
    if (magnitude > 0x7f800000U) return static_cast<std::uint8_t>(sign | 0x7fU);
    if (magnitude == 0x7f800000U) return static_cast<std::uint8_t>(sign | kInfinity);
    const std::uint8_t code = rounded(std::bit_cast<float>(magnitude));
    return static_cast<std::uint8_t>(sign | (code == kInfinity && saturates ? kLargest : code));
  }

  static constexpr float value_of(std::uint8_t bits) {
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x80U) << 24;
    const std::uint32_t code = bits & 0x7fU;
    constexpr std::uint32_t kNaN = 0x7fc00000U;
    if (kHasInfinity && code == kInfinity) return std::bit_cast<float>(sign | 0x7f800000U);
    if (code > kLargest) return std::bit_cast<float>(sign | kNaN);
    if (code >> kFraction == 0) {
      constexpr float kStep =
          std::bit_cast<float>(static_cast<std::uint32_t>(128 - kBias - kFraction) << 23);
      const float value = static_cast<float>(code) * kStep;  // exact: at most 3 bits
      return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(value));
    }
    const std::uint32_t exponent = static_cast<std::uint32_t>(127 - kBias) << 23;
    return std::bit_cast<float>(sign | ((code << (23 - kFraction)) + exponent));
  }
};

template <class Self, int kExponentBits, bool kHasInfinity>
struct Float8 {
  using Format = Float8Format<kExponentBits, kHasInfinity>;

  std::uint8_t bits = 0;

  Float8() = default;
  constexpr explicit Float8(float value) : bits(Format::code_of(value, false)) {}
  constexpr explicit operator float() const { return Format::value_of(bits); }

  static constexpr Self from_bits(std::uint8_t bits) {
    Self result;
    result.bits = bits;
    return result;
  }
  // The nearest number; the largest one for finite numbers outside the range.
  static constexpr Self saturated(float value) { return from_bits(Format::code_of(value, true)); }
};

}  // namespace detail

struct Float8E4M3 : detail::Float8<Float8E4M3, 4, false> {
  using Float8::Float8;
};

struct Float8E5M2 : detail::Float8<Float8E5M2, 5, true> {
  using Float8::Float8;
};

static_assert(sizeof(Float8E4M3) == 1 && sizeof(Float8E5M2) == 1);
static_assert(static_cast<float>(Float8E4M3::from_bits(0x7e)) == 448);
static_assert(static_cast<float>(Float8E5M2::from_bits(0x7b)) == 57344);

}  // namespace mezzo
