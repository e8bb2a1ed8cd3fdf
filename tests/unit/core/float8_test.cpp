#include "mezzo/core/float8.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "mezzo/core/convert_element.h"

namespace mezzo {
namespace {

// The definitions of the two types in numbers. All expectations below are computed from them in
// double, without the code under test.
struct E4m3Format {
  using Type = Float8E4M3;
  static constexpr int kFraction = 3;  // bits
  static constexpr int kBias = 7;
  static constexpr unsigned kLargest = 0x7e;  // the code of the largest number
  static constexpr unsigned kBeyond = 0x7f;   // the code of what is larger: NaN
  static constexpr double kLargestValue = 448;
  static constexpr double kSmallestValue = 0x1p-9;
};
struct E5m2Format {
  using Type = Float8E5M2;
  static constexpr int kFraction = 2;
  static constexpr int kBias = 15;
  static constexpr unsigned kLargest = 0x7b;
  static constexpr unsigned kBeyond = 0x7c;  // infinity
  static constexpr double kLargestValue = 57344;
  static constexpr double kSmallestValue = 0x1p-16;
};

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The value of a code without sign, at most kBeyond. That of kBeyond is the number that the code
// would stand for if the format went on: where rounding to it begins, the range ends.
template <class Format>
double value_of(unsigned code) {
  const auto exponent = static_cast<int>(code >> Format::kFraction);
  const unsigned fraction = code & ((1U << Format::kFraction) - 1);
  const double part = static_cast<double>(fraction) / (1 << Format::kFraction);
  if (exponent == 0) return std::ldexp(part, 1 - Format::kBias);
  return std::ldexp(1 + part, exponent - Format::kBias);
}

// The code of the number nearest to a magnitude, ties to the even code: a search among all codes.
template <class Format>
unsigned nearest_code(double magnitude, bool saturates) {
  unsigned best = 0;
  for (unsigned code = 1; code <= Format::kBeyond; ++code) {
    const double gain =
        std::abs(magnitude - value_of<Format>(best)) - std::abs(magnitude - value_of<Format>(code));
    if (gain > 0 || (gain == 0 && code % 2 == 0)) best = code;
  }
  if (magnitude > value_of<Format>(Format::kBeyond)) best = Format::kBeyond;
  return saturates && best == Format::kBeyond ? Format::kLargest : best;
}

template <class Format>
class Float8Of : public ::testing::Test {
 protected:
  using Element = typename Format::Type;

  static float widen(unsigned code) {
    return static_cast<float>(Element::from_bits(static_cast<std::uint8_t>(code)));
  }
  // Expects that a finite number and its negative round to the codes of the search.
  static void expect_rounds(double value) {
    const auto number = static_cast<float>(value);
    ASSERT_EQ(static_cast<double>(number), value) << "the test needs a number of f32";
    const unsigned code = nearest_code<Format>(value, false);
    const unsigned saturated = nearest_code<Format>(value, true);
    ASSERT_EQ(Element(number).bits, code) << std::hexfloat << value;
    ASSERT_EQ(Element(-number).bits, code | 0x80U) << std::hexfloat << -value;
    ASSERT_EQ(Element::saturated(number).bits, saturated) << std::hexfloat << value;
    ASSERT_EQ(Element::saturated(-number).bits, saturated | 0x80U) << std::hexfloat << -value;
  }
};

using Float8Formats = ::testing::Types<E4m3Format, E5m2Format>;
struct Float8FormatNames {
  template <class Format>
  static std::string GetName(int) {  // NOLINT(readability-identifier-naming): GoogleTest's name
    return Format::kBias == 7 ? "e4m3" : "e5m2";
  }
};
TYPED_TEST_SUITE(Float8Of, Float8Formats, Float8FormatNames);

TYPED_TEST(Float8Of, EveryFiniteCodeWidensExactly) {
  for (unsigned code = 0; code <= TypeParam::kLargest; ++code) {
    const double expected = value_of<TypeParam>(code);
    ASSERT_EQ(static_cast<double>(this->widen(code)), expected) << code;
    const float negative = this->widen(code | 0x80U);
    ASSERT_EQ(static_cast<double>(negative), -expected) << code;
    ASSERT_TRUE(std::signbit(negative)) << code;
  }
  EXPECT_EQ(this->widen(TypeParam::kLargest), TypeParam::kLargestValue);
  EXPECT_EQ(this->widen(1), TypeParam::kSmallestValue);
}

TYPED_TEST(Float8Of, TheOtherCodesAreInfinityAndNan) {
  for (unsigned code = TypeParam::kLargest + 1; code <= 0x7f; ++code) {
    for (const unsigned sign : {0U, 0x80U}) {
      const float value = this->widen(code | sign);
      const bool is_infinity = TypeParam::kBias == 15 && code == 0x7c;
      ASSERT_EQ(std::isinf(value), is_infinity) << code;
      ASSERT_EQ(std::isnan(value), !is_infinity) << code;
      ASSERT_EQ(std::signbit(value), sign != 0) << code;
    }
  }
}

TYPED_TEST(Float8Of, EveryCodeComesBack) {
  for (unsigned code = 0; code <= 0x7f; ++code) {
    const unsigned expected = code > TypeParam::kBeyond ? 0x7f : code;  // one NaN is left
    for (const unsigned sign : {0U, 0x80U}) {
      const float value = this->widen(code | sign);
      ASSERT_EQ(typename TypeParam::Type(value).bits, expected | sign) << code;
      ASSERT_EQ(TypeParam::Type::saturated(value).bits, expected | sign) << code;
    }
  }
}

// Midpoints of all neighbours, subnormal ones, zero and the end of the range included, and the f32
// numbers next to them.
TYPED_TEST(Float8Of, EveryTieGoesToTheEvenNeighbour) {
  for (unsigned code = 0; code <= TypeParam::kLargest; ++code) {
    const double low = value_of<TypeParam>(code);
    const double high = value_of<TypeParam>(code + 1);
    const auto tie = static_cast<float>((low + high) / 2);
    ASSERT_EQ(nearest_code<TypeParam>(tie, false), code % 2 == 0 ? code : code + 1);
    ASSERT_NO_FATAL_FAILURE(this->expect_rounds(tie));
    ASSERT_NO_FATAL_FAILURE(this->expect_rounds(std::nextafter(tie, 0.0F)));
    ASSERT_NO_FATAL_FAILURE(
        this->expect_rounds(std::nextafter(tie, std::numeric_limits<float>::infinity())));
  }
}

TYPED_TEST(Float8Of, ManyFloatsMatchTheSearch) {
  // Floats of all exponents; the stride is odd, so that their last bits vary.
  constexpr std::uint64_t kStride = 20011;
  for (std::uint64_t bits = 0; bits < 0x7f800000U; bits += kStride) {
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    ASSERT_NO_FATAL_FAILURE(this->expect_rounds(value));
  }
}

TYPED_TEST(Float8Of, SubnormalsOfF32BecomeZerosOfTheirSign) {
  for (const std::uint32_t bits : {0U, 1U, 0x400000U, 0x7fffffU}) {
    for (const std::uint32_t sign : {0U, 0x80000000U}) {
      const auto value = std::bit_cast<float>(bits | sign);
      EXPECT_EQ(typename TypeParam::Type(value).bits, sign >> 24) << bits;
      EXPECT_EQ(TypeParam::Type::saturated(value).bits, sign >> 24) << bits;
    }
  }
}

TYPED_TEST(Float8Of, InfinityAndNanNeverBecomeNumbers) {
  using Type = typename TypeParam::Type;
  for (const std::uint32_t sign : {0U, 0x80000000U}) {
    const auto infinity = std::bit_cast<float>(0x7f800000U | sign);
    EXPECT_EQ(Type(infinity).bits, TypeParam::kBeyond | sign >> 24);
    EXPECT_EQ(Type::saturated(infinity).bits, TypeParam::kBeyond | sign >> 24);
    for (std::uint32_t payload = 1; payload < 0x800000U; payload += payload < 4096 ? 1 : 1009) {
      const auto nan = std::bit_cast<float>(0x7f800000U | payload | sign);
      ASSERT_EQ(Type(nan).bits, 0x7fU | sign >> 24) << payload;
      ASSERT_EQ(Type::saturated(nan).bits, 0x7fU | sign >> 24) << payload;
    }
  }
}

// f32 cannot hold a number beside a tie that f64 can: rounding by way of the nearest f32 number
// would take it for the tie.
TYPED_TEST(Float8Of, F64RoundsOnce) {
  using Type = typename TypeParam::Type;
  for (unsigned code = 0; code <= TypeParam::kLargest; ++code) {
    const double tie = (value_of<TypeParam>(code) + value_of<TypeParam>(code + 1)) / 2;
    for (const double value : {tie, std::nextafter(tie, 0.0), std::nextafter(tie, kInfinity)}) {
      const unsigned expected = nearest_code<TypeParam>(value, false);
      ASSERT_EQ(convert_element<Type>(value).bits, expected) << std::hexfloat << value;
      ASSERT_EQ(convert_element<Type>(-value).bits, expected | 0x80U) << std::hexfloat << value;
    }
  }
  EXPECT_EQ(convert_element<Type>(1e300).bits, TypeParam::kBeyond);
  EXPECT_EQ(convert_element<Type>(-1e-300).bits, 0x80);
  EXPECT_EQ(convert_element<double>(Type::from_bits(0x01)), TypeParam::kSmallestValue);
}

TYPED_TEST(Float8Of, IntegersRoundOnce) {
  using Type = typename TypeParam::Type;
  for (std::int64_t value = 0; value <= 70000; ++value) {
    const unsigned expected = nearest_code<TypeParam>(static_cast<double>(value), false);
    ASSERT_EQ(convert_element<Type>(value).bits, expected) << value;
    ASSERT_EQ(convert_element<Type>(static_cast<std::int32_t>(value)).bits, expected) << value;
    if (value == 0) continue;  // integers have no negative zero
    ASSERT_EQ(convert_element<Type>(-value).bits, expected | 0x80U) << value;
  }
  EXPECT_EQ(convert_element<Type>(std::numeric_limits<std::int64_t>::max()).bits,
            TypeParam::kBeyond);
  EXPECT_EQ(convert_element<Type>(true).bits, nearest_code<TypeParam>(1, false));
  EXPECT_EQ(convert_element<Type>(std::uint8_t{255}).bits, nearest_code<TypeParam>(255, false));
}

TYPED_TEST(Float8Of, BecomesIntegersAndOtherFloats) {
  using Type = typename TypeParam::Type;
  for (unsigned code = 0; code <= TypeParam::kLargest; ++code) {
    const double value = value_of<TypeParam>(code);
    const Type element = Type::from_bits(static_cast<std::uint8_t>(code));
    ASSERT_EQ(convert_element<std::int64_t>(element), static_cast<std::int64_t>(value)) << code;
    ASSERT_EQ(convert_element<bool>(element), value != 0) << code;
    ASSERT_EQ(static_cast<double>(static_cast<float>(convert_element<BFloat16>(element))), value);
    ASSERT_EQ(static_cast<double>(static_cast<float>(convert_element<Float16>(element))), value);
  }
  EXPECT_EQ(convert_element<std::int64_t>(Type::from_bits(0x7f)), 0) << "NaN";
}

TEST(Float8, TheUpperEndsAreWhereTheirSpecificationHasThem) {
  EXPECT_EQ(Float8E4M3(464.0F).bits, 0x7e) << "a tie with 480, whose code would be odd";
  EXPECT_EQ(Float8E4M3(std::nextafter(464.0F, 1e9F)).bits, 0x7f) << "NaN";
  EXPECT_EQ(Float8E4M3::saturated(465.0F).bits, 0x7e);
  EXPECT_EQ(Float8E4M3::saturated(-1e30F).bits, 0xfe);
  EXPECT_EQ(Float8E5M2(std::nextafter(61440.0F, 0.0F)).bits, 0x7b);
  EXPECT_EQ(Float8E5M2(61440.0F).bits, 0x7c) << "a tie with 65536, whose code is even: infinity";
  EXPECT_EQ(Float8E5M2::saturated(61440.0F).bits, 0x7b);
  EXPECT_EQ(Float8E5M2::saturated(-1e30F).bits, 0xfb);
}

TEST(Float8, OneTypeBecomesTheOther) {
  EXPECT_EQ(convert_element<Float8E5M2>(Float8E4M3(448.0F)).bits, Float8E5M2(448.0F).bits);
  EXPECT_EQ(convert_element<Float8E4M3>(Float8E5M2(57344.0F)).bits, 0x7f) << "NaN";
  EXPECT_EQ(convert_element<Float8E5M2>(Float8E4M3(1.125F)).bits, Float8E5M2(1.0F).bits)
      << "a tie between 1 and 1.25";
}

TEST(Float8, ConversionsAreConstantExpressions) {
  static_assert(Float8E4M3(1.0F).bits == 0x38);
  static_assert(Float8E5M2(1.0F).bits == 0x3c);
  static_assert(Float8E4M3(0x1p-9F).bits == 0x01);
  static_assert(static_cast<float>(Float8E5M2::from_bits(0x04)) == 0x1p-14F);
}

}  // namespace
}  // namespace mezzo
