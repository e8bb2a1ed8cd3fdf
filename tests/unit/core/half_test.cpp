#include "mezzo/core/half.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include <gtest/gtest.h>

namespace mezzo {
namespace {

// The definition of a 16-bit type in numbers; all expectations below are computed from it in
// double.
struct F16Format {
  using Type = Float16;
  static constexpr int kFraction = 10;   // bits
  static constexpr int kSmallest = -14;  // exponent of the smallest normal value
  static constexpr int kLargest = 15;
  static constexpr bool kFlushes = false;  // f32 subnormals (far below f16's) need no rule
};
struct Bf16Format {
  using Type = BFloat16;
  static constexpr int kFraction = 7;
  static constexpr int kSmallest = -126;
  static constexpr int kLargest = 127;
  static constexpr bool kFlushes = true;
};

constexpr std::uint32_t kPatterns = 0x8000;  // for either sign
constexpr std::uint16_t kSign = 0x8000;

template <class Format>
constexpr std::uint16_t kInfinity =
    static_cast<std::uint16_t>((Format::kLargest - Format::kSmallest + 2) << Format::kFraction);

// The value of a finite pattern without sign.
template <class Format>
double value_of(std::uint32_t pattern) {
  const int exponent = static_cast<int>(pattern >> Format::kFraction);
  const int fraction = static_cast<int>(pattern & ((1U << Format::kFraction) - 1));
  const int hidden = exponent == 0 ? 0 : 1 << Format::kFraction;
  return std::ldexp(hidden + fraction,
                    std::max(exponent, 1) - 1 + Format::kSmallest - Format::kFraction);
}

// The pattern nearest to a value >= 0, ties to even: an exact division by the unit in the last
// place, followed by rounding to an integer.
template <class Format>
std::uint16_t nearest_pattern(double value) {
  if (value == 0 || (Format::kFlushes && value < std::ldexp(1, Format::kSmallest))) return 0;
  int exponent = 0;
  std::frexp(value, &exponent);
  exponent = std::max(exponent - 1, Format::kSmallest);
  const double unit = std::ldexp(1, exponent - Format::kFraction);
  const double units = std::nearbyint(value / unit);
  // Patterns of one exponent are consecutive, and so are the exponents.
  const auto base = static_cast<std::uint32_t>(exponent - Format::kSmallest) << Format::kFraction;
  return static_cast<std::uint16_t>(std::min<double>(base + units, kInfinity<Format>));
}

template <class Format>
class Half : public ::testing::Test {
 protected:
  using Type = typename Format::Type;
  static std::uint16_t narrow(float value) { return Type(value).bits; }
  static float widen(std::uint32_t pattern) {
    return static_cast<float>(Type::from_bits(static_cast<std::uint16_t>(pattern)));
  }
  // Expects that `value` and its negative narrow to `pattern`.
  static void expect_narrows_to(float value, std::uint16_t pattern) {
    ASSERT_EQ(narrow(value), pattern) << std::hexfloat << value;
    ASSERT_EQ(narrow(-value), pattern | kSign) << std::hexfloat << -value;
  }
};

using Formats = ::testing::Types<F16Format, Bf16Format>;
struct FormatNames {
  template <class Format>
  static std::string GetName(int) {  // NOLINT(readability-identifier-naming): GoogleTest's name
    return Format::kFlushes ? "bf16" : "f16";
  }
};
TYPED_TEST_SUITE(Half, Formats, FormatNames);

TYPED_TEST(Half, EveryPatternWidensExactly) {
  for (std::uint32_t pattern = 0; pattern < kInfinity<TypeParam>; ++pattern) {
    const double expected = value_of<TypeParam>(pattern);
    ASSERT_EQ(static_cast<double>(this->widen(pattern)), expected) << pattern;
    const float negative = this->widen(pattern | kSign);
    ASSERT_EQ(static_cast<double>(negative), -expected) << pattern;
    ASSERT_TRUE(std::signbit(negative)) << pattern;
  }
  EXPECT_EQ(this->widen(kInfinity<TypeParam>), std::numeric_limits<float>::infinity());
  EXPECT_EQ(this->widen(kInfinity<TypeParam> | kSign), -std::numeric_limits<float>::infinity());
}

TYPED_TEST(Half, EveryNanWidensToANanOfItsSignAndPayload) {
  for (std::uint32_t pattern = kInfinity<TypeParam> + 1U; pattern < kPatterns; ++pattern) {
    for (const std::uint32_t sign : {0U, 0x8000U}) {
      const auto bits = std::bit_cast<std::uint32_t>(this->widen(pattern | sign));
      ASSERT_GT(bits & 0x7fffffffU, 0x7f800000U) << pattern;
      ASSERT_EQ(bits >> 31, sign >> 15) << pattern;
      const std::uint32_t quiet_mask = (1U << (TypeParam::kFraction - 1)) - 1;
      const std::uint32_t payload = bits >> (23 - TypeParam::kFraction) & quiet_mask;
      ASSERT_EQ(payload, pattern & quiet_mask) << pattern;
    }
  }
}

TYPED_TEST(Half, EveryPatternComesBack) {
  const std::uint32_t smallest_normal = 1U << TypeParam::kFraction;
  const std::uint32_t quiet = 1U << (TypeParam::kFraction - 1);
  for (std::uint32_t pattern = 0; pattern < kPatterns; ++pattern) {
    std::uint32_t expected = pattern;
    if (TypeParam::kFlushes && pattern < smallest_normal) expected = 0;
    if (pattern > kInfinity<TypeParam>) expected |= quiet;
    for (const std::uint32_t sign : {0U, 0x8000U}) {
      ASSERT_EQ(this->narrow(this->widen(pattern | sign)), expected | sign) << pattern;
    }
  }
}

TYPED_TEST(Half, EveryTieGoesToTheEvenNeighbour) {
  // Up to the largest value and the one that would follow it.
  for (std::uint32_t pattern = 0; pattern + 1 <= kInfinity<TypeParam>; ++pattern) {
    if (TypeParam::kFlushes && pattern < (1U << TypeParam::kFraction)) continue;
    const double low = value_of<TypeParam>(pattern);
    const double high = value_of<TypeParam>(pattern + 1);
    const auto tie = static_cast<float>((low + high) / 2);
    ASSERT_EQ(static_cast<double>(tie), (low + high) / 2) << "a tie must be exact in f32";
    const auto below = static_cast<std::uint16_t>(pattern);
    const auto above = static_cast<std::uint16_t>(pattern + 1);
    ASSERT_NO_FATAL_FAILURE(this->expect_narrows_to(tie, pattern % 2 == 0 ? below : above));
    ASSERT_NO_FATAL_FAILURE(this->expect_narrows_to(std::nextafter(tie, 0.0F), below));
    ASSERT_NO_FATAL_FAILURE(this->expect_narrows_to(
        std::nextafter(tie, std::numeric_limits<float>::infinity()), above));
  }
}

TYPED_TEST(Half, ManyFloatsMatchTheDoubleComputation) {
  // Two million floats of all exponents; the stride is odd, so that their last bits vary.
  constexpr std::uint64_t kStride = 1021;
  for (std::uint64_t bits = 0; bits < 0x7f800000U; bits += kStride) {
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    ASSERT_NO_FATAL_FAILURE(this->expect_narrows_to(value, nearest_pattern<TypeParam>(value)));
  }
}

TYPED_TEST(Half, OverflowBeginsHalfAUnitAboveTheLargest) {
  const double largest = value_of<TypeParam>(kInfinity<TypeParam> - 1U);
  const double unit = std::ldexp(1, TypeParam::kLargest - TypeParam::kFraction);
  const auto boundary = static_cast<float>(largest + unit / 2);
  this->expect_narrows_to(static_cast<float>(largest), kInfinity<TypeParam> - 1U);
  this->expect_narrows_to(std::nextafter(boundary, 0.0F), kInfinity<TypeParam> - 1U);
  this->expect_narrows_to(boundary, kInfinity<TypeParam>);
  this->expect_narrows_to(std::numeric_limits<float>::max(), kInfinity<TypeParam>);
  this->expect_narrows_to(std::numeric_limits<float>::infinity(), kInfinity<TypeParam>);
}

TYPED_TEST(Half, EveryNanStaysAQuietNanOfItsSign) {
  for (std::uint32_t payload = 1; payload < 0x00800000U; payload += payload < 0x10000 ? 1 : 257) {
    for (const std::uint32_t sign : {0U, 0x80000000U}) {
      const auto value = std::bit_cast<float>(sign | 0x7f800000U | payload);
      const std::uint16_t pattern = this->narrow(value);
      const std::uint32_t quiet = 1U << (TypeParam::kFraction - 1);
      ASSERT_EQ(pattern,
                sign >> 16 | kInfinity<TypeParam> | quiet | payload >> (23 - TypeParam::kFraction))
          << payload;
    }
  }
}

TEST(Bf16, FlushesF32SubnormalsToAZeroOfTheirSign) {
  for (std::uint32_t bits = 0; bits < 0x00800000U; bits += bits < 0x7fff00U ? 251 : 1) {
    ASSERT_EQ(BFloat16(std::bit_cast<float>(bits)).bits, 0x0000) << bits;
    ASSERT_EQ(BFloat16(std::bit_cast<float>(bits | 0x80000000U)).bits, 0x8000) << bits;
  }
  EXPECT_EQ(BFloat16(std::bit_cast<float>(0x00800000U)).bits, 0x0080) << "the smallest normal";
  EXPECT_EQ(static_cast<float>(BFloat16::from_bits(0x0001)), 0x1p-133F) << "widening is exact";
}

TEST(F16, KeepsItsSubnormals) {
  EXPECT_EQ(Float16(0x1p-24F).bits, 0x0001);
  EXPECT_EQ(Float16(0x1p-25F).bits, 0x0000) << "a tie with zero, which is even";
  EXPECT_EQ(Float16(std::nextafter(0x1p-25F, 1.0F)).bits, 0x0001);
  EXPECT_EQ(Float16(0x1.ff8p-15F).bits, 0x03ff) << "the largest subnormal";
  EXPECT_EQ(Float16(0x1.ffcp-15F).bits, 0x0400) << "its tie with the smallest normal number";
  EXPECT_EQ(Float16(std::numeric_limits<float>::denorm_min()).bits, 0x0000);
  EXPECT_EQ(Float16(-std::numeric_limits<float>::denorm_min()).bits, 0x8000);
}

TEST(HalfConstants, ConversionsAreConstantExpressions) {
  static_assert(BFloat16(1.0F).bits == 0x3f80);
  static_assert(Float16(65504.0F).bits == 0x7bff);
  static_assert(static_cast<float>(Float16::from_bits(0x3c00)) == 1.0F);
}

}  // namespace
}  // namespace mezzo
