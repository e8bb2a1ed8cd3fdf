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

TEST(ExponentCounts, SubnormalsOfF32StayLost) {
  const ExponentCounts counts = plain_counts<float>({0x1p-127F, 0x1p-149F, 0});
  EXPECT_EQ(counts.at(ExponentCounts::kLowest), 2);
  EXPECT_EQ(counts.rounded_to(DType::kBf16, 100).to_zero, 2);
  EXPECT_EQ(counts.finite_nonzero(), 2);
}

TEST(ExponentCounts, SumsAndExtremes) {
  ExponentCounts counts = plain_counts<float>({1, 3, -3.5F, 0, kInf});
  EXPECT_EQ(counts.largest(), 1);
  counts += plain_counts<float>({kNan, 0x1p100F});
  EXPECT_EQ(counts.largest(), 100);
  EXPECT_EQ(counts.at(1), 2);
  EXPECT_EQ(counts.total(), 7);
  EXPECT_EQ(counts.finite_nonzero(), 4);
  EXPECT_EQ(counts.nans(), 1);
  EXPECT_EQ(counts.infinities(), 1);
  EXPECT_FALSE(counts.all_finite());
  EXPECT_EQ(ExponentCounts().largest(), std::nullopt);
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
