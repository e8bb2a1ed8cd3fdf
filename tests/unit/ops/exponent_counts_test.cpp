// Compares the kernel's counts with a plain loop on every instruction set, and the conclusions from
// them with the conversions of core/half.h.
#include "mezzo/ops/update/exponent_counts.h"

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>
#include <hwy/highway.h>
#include <hwy/targets.h>

#include "mezzo/core/random.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/update/multi_tensor.h"
#include "tests/unit/every_target.h"
#include "tests/unit/ops/half_patterns.h"
#include "tests/unit/ops/support.h"
#include "tests/unit/special_values.h"

namespace mezzo {
namespace {

using test::all_patterns;

// In every binade of either sign, and for zero and infinity: the power of two, the fractions where
// parts begin, and the neighbours of all of these. The number of values is odd.
std::vector<float> boundaries() {
  std::vector<std::uint32_t> fractions{0, 2, 0x400000, 0x7fffff};
  for (const std::int32_t begin : ExponentCounts::kPartBegins) {
    for (const std::int32_t delta : {-1, 0, 1}) {
      fractions.push_back(static_cast<std::uint32_t>(begin + delta));
    }
  }
  std::vector<float> values{0};
  for (std::uint32_t upper = 0; upper < 512; ++upper) {
    for (const std::uint32_t fraction : fractions) {
      values.push_back(std::bit_cast<float>(upper << 23 | fraction));
    }
  }
  return values;
}

std::size_t part_of(std::uint32_t fraction) {
  std::size_t part = 0;
  for (const std::int32_t begin : ExponentCounts::kPartBegins) {
    if (fraction >= static_cast<std::uint32_t>(begin)) ++part;
  }
  return part;
}

template <class T>
ExponentCounts plain_counts(const std::vector<T>& values, float factor = 1) {
  ExponentCounts counts;
  for (const T value : values) {
    const auto number = static_cast<float>(value);
    std::uint32_t bits = std::bit_cast<std::uint32_t>(number * factor) & 0x7fffffffU;
    if (bits == 0 && number != 0) bits = 1;
    if (std::isnan(number)) {
      // A product of a signalling NaN is a quiet one. With a factor of 1 the kernels multiply
      // nothing, and a compiler may multiply here or not.
      bits = std::bit_cast<std::uint32_t>(number) & 0x7fffffffU;
      if (factor != 1) bits |= 0x400000U;
    }
    ++counts.cells[(bits >> 23) * ExponentCounts::kParts + part_of(bits & 0x7fffffU)];
  }
  return counts;
}

template <class T>
Tensor tensor_of(const std::vector<T>& values) {
  const Tensor tensor = empty({static_cast<std::int64_t>(values.size())}, kDTypeOf<T>);
  std::copy(values.begin(), values.end(), tensor.mutable_data<T>());
  return tensor;
}

// The effect of rounding, value by value.
template <class Half>
Rounded plain_rounding(const std::vector<float>& values, int shift) {
  Rounded result;
  for (const float value : values) {
    if (!std::isfinite(value) || value == 0) continue;
    const float rounded = static_cast<float>(Half(std::ldexp(value, shift)));
    const float smallest = std::is_same_v<Half, Float16> ? 0x1p-14F : 0x1p-126F;
    if (rounded == 0) ++result.to_zero;
    if (rounded != 0 && std::abs(rounded) < smallest) ++result.to_subnormal;
    if (std::isinf(rounded)) ++result.to_infinity;
  }
  return result;
}

// Runs the test once for each instruction set of this build and CPU.
class CountsOnEveryTarget : public test::OnEveryTarget {};

TEST_P(CountsOnEveryTarget, CountEvery16BitPattern) {
  const auto bf16 = all_patterns<BFloat16>();
  const auto f16 = all_patterns<Float16>();
  const Tensor tensors[] = {tensor_of(bf16), tensor_of(f16)};
  const auto counts = count_exponents(tensors);
  EXPECT_EQ(counts[0], plain_counts(bf16));
  EXPECT_EQ(counts[1], plain_counts(f16));
  EXPECT_EQ(counts[1].zeros(), 2);
  EXPECT_EQ(counts[1].infinities(), 2);
  EXPECT_EQ(counts[1].nans(), 2 * 1023);
}

TEST_P(CountsOnEveryTarget, CountTheBoundariesOfEveryBinade) {
  const std::vector<float> values = boundaries();
  for (const float factor : {1.0F, 0.25F, 0x1p-16F, 1.0F / 3, 1024.0F}) {
    EXPECT_EQ(count_exponents({{tensor_of(values)}}, factor)[0], plain_counts(values, factor))
        << factor;
  }
}

TEST_P(CountsOnEveryTarget, CountEveryLengthOnce) {
  for (std::int64_t count = 0; count < 70; ++count) {
    const std::vector<float> values(static_cast<std::size_t>(count), 1.5F);
    const ExponentCounts counts = count_exponents({{tensor_of(values)}})[0];
    EXPECT_EQ(counts.at(0), count);
    EXPECT_EQ(counts.total(), count);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, CountsOnEveryTarget,
                         testing::ValuesIn(hwy::SupportedAndGeneratedTargets()), test::target_name);

TEST(ExponentCounts, RoundedValuesAreWhatTheConversionsGive) {
  const std::vector<float> values = boundaries();
  const ExponentCounts counts = plain_counts(values);
  EXPECT_EQ(counts.rounded_to(DType::kF16), plain_rounding<Float16>(values, 0));
  EXPECT_EQ(counts.rounded_to(DType::kBf16), plain_rounding<BFloat16>(values, 0));
  EXPECT_EQ(plain_counts(all_patterns<Float16>()).rounded_to(DType::kF16),
            (Rounded{.to_zero = 0, .to_subnormal = 2 * 1023, .to_infinity = 0}));
}

// Every power of two for which the products of normal numbers stay exact in f32: from -102 on for
// f16, since f16 needs nothing below 2^-25.
TEST(ExponentCounts, OneCountAnswersForEveryPowerOfTwo) {
  std::vector<float> values;
  for (const float value : boundaries()) {
    if (std::isnormal(value)) values.push_back(value);
  }
  const ExponentCounts counts = plain_counts(values);
  for (int shift = -126; shift <= 150; ++shift) {
    EXPECT_EQ(counts.rounded_to(DType::kF16, shift), plain_rounding<Float16>(values, shift))
        << shift;
  }
  for (int shift = 0; shift <= 150; ++shift) {
    EXPECT_EQ(counts.rounded_to(DType::kBf16, shift), plain_rounding<BFloat16>(values, shift))
        << shift;
  }
  EXPECT_EQ(counts.rounded_to(DType::kF16, 1 << 30).to_infinity, counts.finite_nonzero());
  EXPECT_EQ(counts.rounded_to(DType::kF16, -(1 << 30)).to_zero, counts.finite_nonzero());
}

TEST(ExponentCounts, TheEndsOfF16) {
  const auto rounded = [](float value, int shift = 0) {
    return plain_counts<float>({value}).rounded_to(DType::kF16, shift);
  };
  EXPECT_EQ(rounded(0x1p-25F).to_zero, 1);
  EXPECT_EQ(rounded(std::nextafter(0x1p-25F, 1.0F)).to_subnormal, 1);
  EXPECT_EQ(rounded(0x1p-25F, 1).to_subnormal, 1);
  EXPECT_EQ(rounded(-65520).to_infinity, 1);
  EXPECT_EQ(rounded(std::nextafter(65520.0F, 0.0F)), Rounded());
  EXPECT_EQ(rounded(65520, -1), Rounded());
  EXPECT_EQ(rounded(kInf), Rounded());  // already infinite before
}

// The formats of eight bits by their definitions: the value of a code without its sign, and the
// first code beyond the finite ones.
struct EightBits {
  NumberFormat format;
  int fraction_bits;
  int bias;
  int codes;  // of finite numbers
};
constexpr EightBits kE4m3{NumberFormat::kE4m3, 3, 7, 0x7f};
constexpr EightBits kE5m2{NumberFormat::kE5m2, 2, 15, 0x7c};

// Also of the code after the last finite one, as if it were a number: rounding goes by it.
double value_of(const EightBits& bits, int code) {
  const int parts = 1 << bits.fraction_bits;
  const int field = code / parts;
  const double fraction = static_cast<double>(code % parts) / parts;
  return field == 0 ? std::ldexp(fraction, 1 - bits.bias)
                    : std::ldexp(1 + fraction, field - bits.bias);
}

// Nearest, and of two equally near ones that with the even code.
Rounded rounded_by_definition(const EightBits& bits, double value) {
  const double magnitude = std::abs(value);
  int code = 0;
  while (code < bits.codes && value_of(bits, code + 1) <= magnitude) ++code;
  if (code == bits.codes) return {.to_infinity = 1};
  const double middle = (value_of(bits, code) + value_of(bits, code + 1)) / 2;
  if (magnitude > middle || (magnitude == middle && code % 2 == 1)) ++code;
  if (code == bits.codes) return {.to_infinity = 1};
  if (code == 0) return {.to_zero = 1};
  return {.to_subnormal = code < (1 << bits.fraction_bits) ? 1 : 0};
}

// The finite numbers of all codes, the one that would follow, the middles between neighbours, and
// the f32 numbers beside all of them, of either sign.
std::vector<float> numbers_around_codes(const EightBits& bits) {
  std::vector<float> numbers;
  const auto add = [&](double number) {
    const auto exact = static_cast<float>(number);
    for (const float value : {exact, std::nextafter(exact, 0.0F), std::nextafter(exact, kInf)}) {
      if (!std::isnormal(value)) continue;
      numbers.push_back(value);
      numbers.push_back(-value);
    }
  };
  for (int code = 0; code <= bits.codes; ++code) {
    add(value_of(bits, code));
    add((value_of(bits, code) + value_of(bits, code + 1)) / 2);
  }
  return numbers;
}

TEST(ExponentCounts, EightBitFormatsRoundAsTheirCodesSay) {
  for (const EightBits& bits : {kE4m3, kE5m2}) {
    const std::vector<float> numbers = numbers_around_codes(bits);
    EXPECT_GT(numbers.size(), 1400);
    for (const float value : numbers) {
      const Rounded expected = rounded_by_definition(bits, value);
      for (const int shift : {-40, 0, 3}) {
        const ExponentCounts counts = plain_counts<float>({std::ldexp(value, -shift)});
        EXPECT_EQ(counts.rounded_to(bits.format, shift), expected)
            << name_of(bits.format) << " " << value << " times 2^" << shift;
      }
    }
  }
}

TEST(ExponentCounts, TheEndsOfEightBits) {
  const auto rounded = [](NumberFormat format, float value) {
    return plain_counts<float>({value}).rounded_to(format);
  };
  EXPECT_EQ(rounded(NumberFormat::kE4m3, 448), Rounded());
  EXPECT_EQ(rounded(NumberFormat::kE4m3, 464), Rounded()) << "a tie, and 448 is even";
  EXPECT_EQ(rounded(NumberFormat::kE4m3, std::nextafter(464.0F, kInf)).to_infinity, 1);
  EXPECT_EQ(rounded(NumberFormat::kE4m3, 0x1p-10F).to_zero, 1);
  EXPECT_EQ(rounded(NumberFormat::kE4m3, std::nextafter(0x1p-10F, 1.0F)).to_subnormal, 1);
  EXPECT_EQ(rounded(NumberFormat::kE4m3, 0x1p-6F), Rounded());
  EXPECT_EQ(rounded(NumberFormat::kE5m2, 57344), Rounded());
  EXPECT_EQ(rounded(NumberFormat::kE5m2, std::nextafter(61440.0F, 0.0F)), Rounded());
  EXPECT_EQ(rounded(NumberFormat::kE5m2, 61440).to_infinity, 1);
  EXPECT_EQ(rounded(NumberFormat::kE5m2, 0x1p-17F).to_zero, 1);
  EXPECT_EQ(rounded(NumberFormat::kE5m2, 0x1p-16F).to_subnormal, 1);
  EXPECT_EQ(rounded(NumberFormat::kE5m2, 0x1p-14F), Rounded());
}

TEST(ExponentCounts, TheWeightThatTheLowerEndTakes) {
  const auto lost = [](const std::vector<float>& values, NumberFormat format, int shift = 0) {
    return plain_counts(values).lost_weight_in(format, shift);
  };
  EXPECT_EQ(lost({}, NumberFormat::kF16), 0);
  EXPECT_EQ(lost({0, kInf}, NumberFormat::kF16), 0);
  EXPECT_EQ(lost({1, 2, 3}, NumberFormat::kF16), 0);
  EXPECT_EQ(lost({0x1p-26F, -0x1p-30F}, NumberFormat::kF16), 1);
  EXPECT_EQ(lost({0x1p-26F, -0x1p-30F}, NumberFormat::kF16, 20), 0);
  EXPECT_EQ(lost({0x1p-26F, -0x1p-30F}, NumberFormat::kBf16), 0);
  EXPECT_LT(lost({1, 0x1p-26F, -0x1p-30F}, NumberFormat::kF16), 1e-7);
  // A quarter of f16's step of 2^-24.
  EXPECT_EQ(lost({0x1p-22F}, NumberFormat::kF16), 0x1p-26 / 0x1p-22);
  EXPECT_EQ(lost({0x1p-20F}, NumberFormat::kF16, -2), 0x1p-26 / 0x1p-22);
}

TEST(ExponentCounts, SubnormalsOfF32StayLost) {
  const ExponentCounts counts = plain_counts<float>({0x1p-127F, 0x1p-149F, 0});
  EXPECT_EQ(counts.at(ExponentCounts::kLowest), 2);
  EXPECT_EQ(counts.rounded_to(DType::kBf16, 100).to_zero, 2);
  EXPECT_EQ(counts.finite_nonzero(), 2);
}

TEST(ExponentCounts, SumsAndExtremes) {
  ExponentCounts counts = plain_counts<float>({1, 3, -3.5F, 0, kInf});
  EXPECT_EQ(counts.largest(), 1);
  EXPECT_EQ(counts.smallest(), 0);
  counts += plain_counts<float>({kNan, 0x1p100F});
  EXPECT_EQ(counts.largest(), 100);
  EXPECT_EQ(counts.at(1), 2);
  EXPECT_EQ(counts.total(), 7);
  EXPECT_EQ(counts.finite_nonzero(), 4);
  EXPECT_EQ(counts.nans(), 1);
  EXPECT_EQ(counts.infinities(), 1);
  EXPECT_FALSE(counts.all_finite());
  EXPECT_EQ(ExponentCounts().largest(), std::nullopt);
  EXPECT_EQ(ExponentCounts().smallest(), std::nullopt);
  EXPECT_EQ(ExponentCounts().total(), 0);
}

TEST(ExponentCounts, DTypesAndExponentsThatDoNotExistAreRefused) {
  EXPECT_THROW(ExponentCounts().rounded_to(DType::kF32), ArgumentError);
  EXPECT_THROW(ExponentCounts().at(128), ArgumentError);
  EXPECT_THROW(ExponentCounts().at(-128), ArgumentError);
}

TEST(CountExponents, DoNotDependOnTheNumberOfThreads) {
  Generator generator(7);
  std::vector<Tensor> tensors;
  for (const std::int64_t count : {100'001, 3, 0, 65'537, 17}) {
    tensors.push_back(randn({count}, generator));
  }
  tensors.emplace_back();
  std::vector<std::vector<ExponentCounts>> counts;
  for (const int threads : {1, 2, 3, 5}) {
    const test::Threads guard(threads);
    counts.push_back(count_exponents(tensors));
  }
  EXPECT_EQ(counts[0][0], plain_counts(tensors[0].to_vector<float>()));
  EXPECT_EQ(counts[0].back().total(), 0);
  EXPECT_EQ(counts[1], counts[0]);
  EXPECT_EQ(counts[2], counts[0]);
  EXPECT_EQ(counts[3], counts[0]);
}

TEST(CountExponents, TellTheFirstTensorThatIsNotFinite) {
  const Tensor good = from_values({1.0F, std::numeric_limits<float>::max()}, {2});
  const Tensor infinite = from_values({1.0F, -kInf}, {2});
  const Tensor wrong = from_values({kNan, 1.0F}, {2});
  const auto first = [](std::vector<Tensor> tensors, float factor = 1) {
    return first_nonfinite(count_exponents(tensors, factor));
  };
  EXPECT_EQ(first({good, good}), std::nullopt);
  EXPECT_EQ(first({Tensor(), good, wrong, infinite}), 2U);
  EXPECT_EQ(first({infinite, wrong}), 0U);
  EXPECT_EQ(first({good}, 4), 0U);  // the product overflows
  EXPECT_EQ(first({}), std::nullopt);
}

TEST(CountExponents, RefuseFactorsAndTensorsThatMakeNoSense) {
  const Tensor tensor = ones({2, 3});
  for (const float factor : {0.0F, -1.0F, kInf, kNan}) {
    EXPECT_THROW(count_exponents({{tensor}}, factor), ArgumentError) << factor;
  }
  EXPECT_THROW(count_exponents({{zeros({2}, DType::kI64)}}), ArgumentError);
}

}  // namespace
}  // namespace mezzo
