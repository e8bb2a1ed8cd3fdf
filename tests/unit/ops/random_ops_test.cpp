// Tests dropout: its statistics, and that the mask comes from the stream of core/random.
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/core/random.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/dropout.h"
#include "mezzo/ops/reduce.h"
#include "tests/unit/threads.h"

namespace mezzo {
namespace {

using Floats = std::vector<float>;

TEST(Dropout, KeepsTheMeanAndTheRate) {
  constexpr std::int64_t kCount = 1 << 20;
  for (const double p : {0.1, 0.5, 0.9}) {
    Generator generator(42);
    const Tensor y = dropout(ones({kCount}), p, true, generator);
    std::int64_t dropped = 0;
    for (const float v : y.to_vector<float>()) dropped += v == 0 ? 1 : 0;
    // Five standard deviations of a binomial distribution.
    const double allowed = 5 * std::sqrt(p * (1 - p) * kCount);
    EXPECT_NEAR(static_cast<double>(dropped), p * kCount, allowed);
    EXPECT_NEAR(mean(y).item(), 1, allowed / kCount / (1 - p));
  }
}

TEST(Dropout, TheMaskIsTheStreamAtTheGeneratorsPosition) {
  // At the last position the low word of the block counter soon overflows.
  for (const std::uint64_t offset : {0ULL, 12ULL, (1ULL << 34) - 64ULL}) {
    for (const std::int64_t n : {1, 3, 63, 64, 65, 1000}) {
      Generator generator(7);
      generator.set_position({0x123456789ULL, offset});
      const Floats y = dropout(ones({n}), 0.3, true, generator).to_vector<float>();
      Floats uniform(static_cast<std::size_t>(n));
      fill_uniform(uniform, {0x123456789ULL, offset}, 0, 1);
      for (std::size_t i = 0; i < uniform.size(); ++i) {
        ASSERT_EQ(y[i] == 0, uniform[i] < 0.3F) << "element " << i << " at " << offset;
      }
      EXPECT_EQ(generator.position().offset, offset + static_cast<std::uint64_t>((n + 3) / 4 * 4));
    }
  }
}

TEST(Dropout, IsTheSameForEveryThreadCountAndDtype) {
  const Tensor x = ones({3, 40000});
  Floats first;
  for (const int threads : {1, 2, 3}) {
    const test::Threads guard(threads);
    for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16, DType::kF64}) {
      Generator generator(5);
      const Floats y = dropout(x.astype(dtype), 0.5, true, generator).to_vector<float>();
      if (first.empty()) first = y;
      ASSERT_EQ(y, first) << threads << " threads, " << name_of(dtype);
    }
  }
}

TEST(Dropout, TheBackwardPassDrawsTheSameMask) {
  for (const Format format : {Format::kContiguous, Format::kChannelsLast}) {
    Generator generator(9);
    const Tensor x = to_format(ones({2, 8, 5, 3}), format).detach().set_requires_grad(true);
    const Tensor y = dropout(x, 0.25, true, generator);
    // A gradient in the other memory format uses the mask at the same logical positions.
    y.backward(ones({2, 8, 5, 3}));
    EXPECT_EQ(x.grad().to_vector<float>(), y.to_vector<float>());
  }
}

// Includes values that are NaN when multiplied by an infinite scale, and the plain loop, which
// handles f64.
TEST(Dropout, OfProbabilityOneGivesZeros) {
  constexpr std::int64_t kCount = 100'000;  // one word in 2^24 is the largest
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16, DType::kF64}) {
    for (const double value : {0.0, 1.0, -HUGE_VAL}) {
      const Tensor x = full({kCount}, value, dtype).set_requires_grad(true);
      const Tensor y = dropout(x, 1);
      y.backward(ones({kCount}, dtype));
      EXPECT_THAT(y.to_vector<float>(), testing::Each(0));
      EXPECT_THAT(x.grad().to_vector<float>(), testing::Each(0));
    }
  }
}

TEST(Dropout, CallsDrawDifferentMasks) {
  Generator generator(1);
  const Tensor x = ones({100});
  const Floats first = dropout(x, 0.5, true, generator).to_vector<float>();
  EXPECT_NE(dropout(x, 0.5, true, generator).to_vector<float>(), first);
  generator.set_seed(1);
  EXPECT_EQ(dropout(x, 0.5, true, generator).to_vector<float>(), first);
}

TEST(Dropout, DoesNothingOutsideOfTraining) {
  Generator generator(1);
  const Tensor x = ones({4});
  EXPECT_EQ(dropout(x, 0.5, false, generator).impl(), x.impl());
  EXPECT_EQ(dropout(x, 0, true, generator).impl(), x.impl());
  EXPECT_EQ(generator.position().offset, 0U);
  EXPECT_THROW(dropout(x, 1.1), ArgumentError);
  EXPECT_THROW(dropout(x, -0.1), ArgumentError);
  EXPECT_THROW(dropout(x, std::nan("")), ArgumentError);
}

}  // namespace
}  // namespace mezzo
