// The two 16-bit floating types as storage, and their exact conversions.
//
// Rounding is to nearest, ties to even. NaN stays NaN (quiet, sign and upper payload kept).
// Subnormals, the one place where the types differ:
//   bf16 has f32's exponent range, so its subnormals are f32's. Hardware conversions
//   (vcvtneps2bf16, and oneDNN everywhere) read f32 subnormals as zero, so we do too: an f32
//   subnormal becomes a zero of the same sign, on every CPU. Widening bf16 to f32 is exact for
//   every pattern, subnormals included.
//   f16 keeps its subnormals in both directions (2^-24 is the smallest): they are within
//   the range of ordinary gradients, and flushing them would lose 10 binades.
#pragma once

#include <bit>
#include <cstdint>

namespace mezzo {

// 1 sign, 8 exponent, 7 fraction bits: the range of f32 with 8 bits of precision.
struct BFloat16 {
  std::uint16_t bits = 0;

  BFloat16() = default;
  constexpr explicit BFloat16(float value) : bits(from_float(value)) {}
  static constexpr BFloat16 from_bits(std::uint16_t bits) {
    BFloat16 result;
    result.bits = bits;
    return result;
  }
  constexpr explicit operator float() const {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }

 private:
  static constexpr std::uint16_t from_float(float value) {
    const auto u = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t magnitude = u & 0x7fffffffU;
    if (magnitude > 0x7f800000U) return static_cast<std::uint16_t>((u >> 16) | 0x40U);  // NaN
    if (magnitude < 0x00800000U) return static_cast<std::uint16_t>((u >> 16) & 0x8000U);
    return static_cast<std::uint16_t>((u + 0x7fffU + ((u >> 16) & 1U)) >> 16);
  }
};

// IEEE binary16: 1 sign, 5 exponent, 10 fraction bits. Largest 65504, smallest 2^-24.
struct Float16 {
  std::uint16_t bits = 0;

  Float16() = default;
  constexpr explicit Float16(float value) : bits(from_float(value)) {}
  static constexpr Float16 from_bits(std::uint16_t bits) {
    Float16 result;
    result.bits = bits;
    return result;
  }
  constexpr explicit operator float() const {
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
    const std::uint32_t magnitude = bits & 0x7fffU;
    if (magnitude >= 0x7c00U) {  // infinity and NaN
      const std::uint32_t quiet = magnitude > 0x7c00U ? 0x00400000U : 0U;
      return std::bit_cast<float>(sign | 0x7f800000U | ((magnitude & 0x3ffU) << 13) | quiet);
    }
    if (magnitude >= 0x0400U) {
      return std::bit_cast<float>(sign | ((magnitude << 13) + 0x38000000U));
    }
    const float value = static_cast<float>(magnitude) * 0x1p-24F;  // exact: at most 10 bits
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(value));
  }

 private:
  static constexpr std::uint16_t from_float(float value) {
    const auto u = std::bit_cast<std::uint32_t>(value);
    const auto sign = static_cast<std::uint16_t>((u >> 16) & 0x8000U);
    const std::uint32_t magnitude = u & 0x7fffffffU;
    if (magnitude > 0x7f800000U) {
      return static_cast<std::uint16_t>(sign | 0x7e00U | ((magnitude >> 13) & 0x3ffU));
    }
    if (magnitude >= 0x477ff000U) return static_cast<std::uint16_t>(sign | 0x7c00U);  // >= 65520
    if (magnitude >= 0x38800000U) {                                                   // normal
      const std::uint32_t rounded = magnitude + 0xfffU + ((magnitude >> 13) & 1U);
      return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000U) >> 13));
    }
    // Adding 1/2 aligns the fraction so that one unit in the last place is 2^-24. The addition
    // itself then rounds to the nearest f16 subnormal, ties to even.
    const float aligned = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(aligned) - 0x3f000000U));
  }
};

// Rounds an f64 number to odd: returns it as f32 if that is exact, else the one of the two f32
// neighbours whose last bit is 1. Rounding the result to 16 bits gives what rounding the f64 number
// would. The nearest f32 number might not: it can be a tie between two 16-bit numbers where the f64
// number is none (Boldo and Melquiond 2008).
constexpr float rounded_to_odd(double value) {
  const auto nearest = static_cast<float>(value);
  const auto exact = static_cast<double>(nearest);
  if (exact == value || exact != exact) return nearest;
  const bool is_further = value < 0 ? exact < value : exact > value;
  const auto bits = std::bit_cast<std::uint32_t>(nearest) - (is_further ? 1U : 0U);
  return std::bit_cast<float>(bits | 1U);
}

static_assert(sizeof(BFloat16) == 2 && sizeof(Float16) == 2);

}  // namespace mezzo
