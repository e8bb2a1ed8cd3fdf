// Compares scaled casts with their definition, written out, bit for bit: codes, scales and largest
// values, for every way to share a scale.
#include "mezzo/ops/scaled_cast.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "mezzo/core/float8.h"
#include "mezzo/core/parallel.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/scale_factor.h"
#include "tests/unit/eight_bits/eight_bit_net.h"
#include "tests/unit/message_of.h"

namespace mezzo {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

struct Expected {
  std::vector<float> codes;
  std::vector<float> scales;
};

float rounded(float value, DType dtype) {
  return dtype == DType::kE4m3 ? static_cast<float>(Float8E4M3::saturated(value))
                               : static_cast<float>(Float8E5M2::saturated(value));
}

// The power of two that takes a block's largest value to at most the largest number: by trying all.
int smallest_exponent(float amax, double largest) {
  for (int exponent = -127; exponent < 128; ++exponent) {
    if (std::ldexp(largest, exponent) >= double{amax}) return exponent;
  }
  return 128;
}

// Which scale element (i, j) has, and how many there are.
std::size_t group_of(std::int64_t i, std::int64_t j, const Shape& shape,
                     const ScaledCastOptions& options) {
  const std::int64_t line = options.columns ? j : i;
  const std::int64_t place = options.columns ? i : j;
  if (options.by == ScaleBy::kTensor) return 0;
  if (options.by == ScaleBy::kLine) return static_cast<std::size_t>(line);
  const std::int64_t blocks = (shape[options.columns ? 0 : 1] + 31) / 32;
  return static_cast<std::size_t>(options.columns ? place / 32 * shape[1] + line
                                                  : line * blocks + place / 32);
}

Expected written_out(const Tensor& x, const ScaledCastOptions& options, std::size_t groups) {
  const auto values = x.to_vector<float>();
  const Shape& shape = x.shape();
  const auto at = [&](std::int64_t i, std::int64_t j) {
    return values[static_cast<std::size_t>(i * shape[1] + j)];
  };
  std::vector<float> amax(groups);
  for (std::int64_t i = 0; i < shape[0]; ++i) {
    for (std::int64_t j = 0; j < shape[1]; ++j) {
      float& own = amax[group_of(i, j, shape, options)];
      own = std::isnan(own) || std::isnan(at(i, j)) ? kNan : std::max(own, std::abs(at(i, j)));
    }
  }
  const double largest = max_of(options.dtype);
  Expected expected;
  std::vector<float> factors;
  for (const float own : amax) {
    if (options.by == ScaleBy::kBlock) {
      const int exponent = std::isfinite(own) ? smallest_exponent(own, largest) : 128;
      expected.scales.push_back(static_cast<float>(exponent + 127));
      factors.push_back(exponent == 128 ? kNan : std::ldexp(1.0F, -exponent));
    } else {
      const bool says = own > 0 && std::isfinite(own);
      factors.push_back(
          says ? std::min(static_cast<float>(largest) / own, std::numeric_limits<float>::max())
               : 1.0F);
      expected.scales.push_back(1 / factors.back());
    }
  }
  for (std::int64_t i = 0; i < shape[0]; ++i) {
    for (std::int64_t j = 0; j < shape[1]; ++j) {
      const float factor = factors[group_of(i, j, shape, options)];
      expected.codes.push_back(rounded(at(i, j) * factor, options.dtype));
    }
  }
  return expected;
}

// NaNs are alike: a code has no payload.
std::vector<float> without_nan(std::vector<float> values) {
  for (float& value : values) {
    if (std::isnan(value)) value = -12345;
  }
  return values;
}

void expect_as_written(const Tensor& x, const ScaledCastOptions& options, const char* what) {
  const ScaledTensor got = scaled_cast(x, options);
  const Expected want = written_out(x, options, static_cast<std::size_t>(got.scales.numel()));
  const std::string name = concat(what, ' ', x.dtype(), " to ", options.dtype, " by ", options.by,
                                  options.columns ? " along columns" : "");
  EXPECT_EQ(without_nan(got.codes.to_vector<float>()), without_nan(want.codes)) << name;
  EXPECT_EQ(got.scales.to_vector<float>(), want.scales) << name;
}

template <class Body>
void for_every_way(const Body& body) {
  for (const DType dtype : {DType::kE4m3, DType::kE5m2}) {
    for (const ScaleBy by : kScaleBys) {
      for (const bool columns : {false, true}) body(ScaledCastOptions{dtype, by, columns});
    }
  }
}

// Values over many binades.
Tensor wide_values(const Shape& shape, std::uint64_t seed) {
  Generator generator(seed);
  const Tensor x = randn(shape, generator);
  auto* const values = x.mutable_data<float>();
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    values[i] = std::ldexp(values[i], static_cast<int>(generator.below(24)) - 12);
  }
  return x;
}

TEST(ScaledCast, IsWhatItsDefinitionSaysForEveryWayAndShape) {
  for_every_way([](const ScaledCastOptions& options) {
    for (const Shape& shape :
         {Shape{1, 1}, Shape{3, 5}, Shape{33, 64}, Shape{70, 97}, Shape{2, 300}, Shape{257, 2}}) {
      const Tensor x = wide_values(shape, 7);
      for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
        expect_as_written(x.astype(dtype), options, "random");
      }
    }
  });
}

TEST(ScaledCast, ZerosSmallNumbersAndThoseThatAreNotFinite) {
  for_every_way([](const ScaledCastOptions& options) {
    expect_as_written(zeros({3, 40}), options, "zeros");
    expect_as_written(full({3, 40}, 1e-44), options, "subnormal");
    expect_as_written(full({3, 40}, 3e38), options, "huge");
    const Tensor x = wide_values({3, 40}, 8);
    x.mutable_data<float>()[41] = kInf;
    expect_as_written(x, options, "an infinity");
    x.mutable_data<float>()[50] = -kNan;
    expect_as_written(x, options, "a NaN");
  });
}

TEST(ScaledCast, InfinityAndNanDoNotBecomeNumbers) {
  const Tensor x = from_values(std::vector<float>{kInf, -kInf, kNan, 1}, {1, 4});
  const auto e4m3 = unscaled(scaled_cast(x, {})).to_vector<float>();
  EXPECT_TRUE(std::isnan(e4m3[0]) && std::isnan(e4m3[1]) && std::isnan(e4m3[2]));
  EXPECT_EQ(e4m3[3], 1);
  const auto e5m2 = unscaled(scaled_cast(x, {.dtype = DType::kE5m2})).to_vector<float>();
  EXPECT_EQ(e5m2[0], kInf);
  EXPECT_EQ(e5m2[1], -kInf);
  EXPECT_TRUE(std::isnan(e5m2[2]));
}

TEST(ScaledCast, AGivenScaleSaturatesWhatItTakesOutOfRange) {
  const Tensor x = from_values(std::vector<float>{1, -2, 3, 1000}, {1, 4});
  const ScaledTensor got = scaled_cast(x, {.scale = full({1}, 2.0)});
  EXPECT_EQ(got.codes.to_vector<float>(), (std::vector<float>{2, -4, 6, 448}));
  EXPECT_EQ(got.scales.to_vector<float>(), std::vector<float>{0.5F});
  EXPECT_EQ(got.amax.to_vector<float>(), std::vector<float>{1000});
  EXPECT_EQ(unscaled(got).to_vector<float>(), (std::vector<float>{1, -2, 3, 224}));
}

TEST(ScaledCast, ABlocksLargestNumberNeverSaturates) {
  for (const DType dtype : {DType::kE4m3, DType::kE5m2}) {
    for (int exponent = -110; exponent < 120; ++exponent) {
      const auto largest = static_cast<float>(std::ldexp(max_of(dtype), exponent - 20));
      const float above = std::nextafter(largest, kInf);
      if (std::isinf(above)) continue;
      EXPECT_EQ(block_code(largest, dtype), std::max(0, exponent - 20 + 127)) << exponent;
      EXPECT_EQ(block_code(above, dtype), std::max(0, exponent - 20 + 128)) << exponent;
    }
  }
  EXPECT_EQ(block_code(kInf, DType::kE4m3), 255);
  EXPECT_EQ(block_code(kNan, DType::kE4m3), 255);
  EXPECT_TRUE(std::isnan(block_scale(255)) && std::isnan(block_factor(255)));
  EXPECT_EQ(block_scale(127), 1);
  EXPECT_EQ(block_factor(0), 0x1p127F);
  EXPECT_EQ(block_factor(254), 0x1p-127F);
}

TEST(ScaledCast, DoesNotDependOnTheNumberOfThreadsOrTheLayout) {
  const Tensor x = wide_values({300, 500}, 9);
  for_every_way([&](const ScaledCastOptions& options) {
    const ScaledTensor one = scaled_cast(x, options);
    const int before = num_threads();
    set_num_threads(3);
    const ScaledTensor three = scaled_cast(x, options);
    set_num_threads(before);
    EXPECT_EQ(test::patterns(one.codes), test::patterns(three.codes));
    EXPECT_EQ(test::patterns(one.scales), test::patterns(three.scales));
    const Tensor strided = transpose(contiguous(transpose(x)));
    EXPECT_EQ(test::patterns(scaled_cast(strided, options).codes), test::patterns(one.codes));
  });
}

TEST(ScaledCast, CodesHaveNoHistory) {
  const Tensor x = ones({2, 3}).set_requires_grad(true);
  EXPECT_FALSE(scaled_cast(x, {}).codes.requires_grad());
}

TEST(ScaledCast, OtherOperationsRefuseCodes) {
  const Tensor codes = scaled_cast(ones({2, 3}), {}).codes;
  EXPECT_EQ(message_of<ArgumentError>([&] { relu(codes); }),
            "[relu] input 0 is e4m3[2, 3], whose numbers mean nothing without a scale. Use "
            "scaled_matmul(), or cast() it");
}

}  // namespace
}  // namespace mezzo
