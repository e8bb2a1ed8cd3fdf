// Tests norms and variances beyond the sweep.
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/amp/autocast.h"
#include "mezzo/autograd/engine.h"
#include "mezzo/core/random.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/norm.h"
#include "mezzo/ops/reduce.h"
#include "tests/unit/message_of.h"
#include "tests/unit/threads.h"

namespace mezzo {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsNan;

TEST(VectorNorm, IsThatOfAnyP) {
  const Tensor x = from_values({3.0F, -4.0F, 0.0F, 0.0F}, {2, 2});
  EXPECT_EQ(norm(x).item(), 5);
  EXPECT_EQ(norm(x, 1).item(), 7);
  EXPECT_EQ(norm(x, INFINITY).item(), 4);
  EXPECT_EQ(norm(x, -INFINITY).item(), 0);
  EXPECT_EQ(norm(x, 0).item(), 2);
  EXPECT_NEAR(norm(x, 3).item(), std::cbrt(91.0), 1e-6);
  EXPECT_THAT(norm(x, 2, {1}).to_vector<float>(), ElementsAre(5, 0));
  EXPECT_EQ(norm(x, 1, {0}, true).shape(), (Shape{1, 2}));
}

TEST(VectorNorm, SixteenBitSquaresNeitherOverflowNorVanish) {
  EXPECT_EQ(norm(full({16}, 1000, DType::kF16)).item(), 4000);
  EXPECT_EQ(norm(full({16}, 0x1p-14, DType::kF16)).item(), 0x1p-12);
  EXPECT_EQ(norm(full({10000}, 1, DType::kBf16)).item(), 100);
  EXPECT_EQ(norm(full({4}, 1e30)).item(), 2e30F);  // the squares are infinite in f32
}

TEST(VectorNorm, IsF32InMixedPrecision) {
  const Tensor x = full({16}, 30000, DType::kF16);
  EXPECT_EQ(norm(x).item(), INFINITY);  // 120000 is out of f16's range
  const amp::Autocast region(DType::kF16);
  EXPECT_EQ(norm(x).dtype(), DType::kF32);
  EXPECT_EQ(norm(x).item(), 120000);
}

TEST(VectorNorm, TheGradientIsZeroWhereTheNormIs) {
  const Tensor x = from_values({0.0F, 0.0F, 3.0F, 4.0F}, {2, 2}).set_requires_grad(true);
  const Tensor loss = sum(norm(x, 2, {1}));
  EXPECT_THAT(grad({&loss, 1}, {&x, 1})[0].to_vector<float>(), ElementsAre(0, 0, 0.6F, 0.8F));
}

TEST(VectorNorm, RefusesIntegersAndNoNumber) {
  EXPECT_THAT(message_of([] { norm(zeros({2}, DType::kI64)); }),
              HasSubstr("[norm] x must be floating-point, it is i64"));
  EXPECT_THAT(message_of([] { norm(zeros({2}), NAN); }), HasSubstr("[norm] p is NaN"));
}

TEST(VectorNorm, BitsDoNotDependOnTheNumberOfThreads) {
  manual_seed(1);
  const Tensor x = randn({60, 70, 50});
  for (const Shape& axes : {Shape{0}, Shape{1}, Shape{2}, Shape{0, 2}, Shape{}}) {
    std::vector<float> first;
    for (const int threads : {1, 2, 3, 5}) {
      const test::Threads guard(threads);
      const auto y = norm(x, 2, axes).to_vector<float>();
      if (first.empty()) first = y;
      EXPECT_EQ(y, first) << threads;
    }
  }
}

TEST(Normalize, GivesLengthOne) {
  const Tensor x = from_values({3.0F, 4.0F, 0.0F, 0.0F}, {2, 2});
  EXPECT_THAT(normalize(x).to_vector<float>(), ElementsAre(0.6F, 0.8F, 0, 0));
  EXPECT_THAT(normalize(x, 1, 0).to_vector<float>(), ElementsAre(1, 1, 0, 0));
}

TEST(Normalize, F16HasAnEpsToo) {
  // 1e-12 is 0 in f16, and 0 / 0 is NaN. Squares of 0.0001 are 0 in f16, too.
  EXPECT_THAT(normalize(zeros({1, 4}, DType::kF16)).to_vector<float>(), Each(0));
  const Tensor small = normalize(full({1, 4}, 1e-4, DType::kF16));
  EXPECT_EQ(small.dtype(), DType::kF16);
  EXPECT_THAT(small.to_vector<float>(), Each(0.5F));
}

TEST(Variance, CorrectsTheNumberOfElements) {
  const Tensor x = from_values({1.0F, 3.0F, 5.0F, 7.0F}, {4});
  EXPECT_NEAR(var(x).item(), 20.0 / 3, 1e-6);
  EXPECT_EQ(var(x, {}, {.correction = 0}).item(), 5);
  EXPECT_NEAR(std(x).item(), std::sqrt(20.0 / 3), 1e-6);
  EXPECT_EQ(std(x, {0}, {.correction = 0, .keepdim = true}).shape(), Shape{1});
  EXPECT_THAT(var(ones({3, 1}), {1}).to_vector<float>(), Each(IsNan()));
}

TEST(Variance, ALargeMeanDoesNotSpoilIt) {
  const Tensor x = from_values({10001.0F, 10003.0F, 10005.0F, 10007.0F}, {4});
  EXPECT_NEAR(var(x, {}, {.correction = 0}).item(), 5, 1e-4);
  // In f16, squares of 300 are infinite.
  const Tensor half = from_values({298.0F, 300.0F, 302.0F}, {3}).astype(DType::kF16);
  EXPECT_EQ(var(half).item(), 4);
  EXPECT_EQ(std(half).dtype(), DType::kF16);
}

TEST(Variance, RegionsDoNotRound) {
  const Tensor x = from_values({-1000.0F, 1000.0F}, {2});
  const Tensor odd = from_values({-1000.1F, 1000.1F}, {2});  // 1000 in f16
  for (const amp::Level level : {amp::Level::kO2, amp::Level::kO3}) {
    const amp::Autocast region({.level = level, .lower = DType::kF16});
    EXPECT_EQ(var(x).item(), 2e6F);
    EXPECT_NEAR(std(odd, {}, {.correction = 0}).item(), 1000.1, 1e-3);
    EXPECT_NEAR(norm(full({16}, 100), 4).item(), 200, 1e-4);
    EXPECT_THAT(normalize(zeros({1, 4})).to_vector<float>(), Each(0));
    EXPECT_THAT(normalize(full({1, 4}, 1e-6), 1).to_vector<float>(), Each(0.25F));
  }
}

TEST(Variance, TheGradientOfTheDeviationIsZeroForEqualElements) {
  const Tensor x = ones({4}).set_requires_grad(true);
  const Tensor loss = std(x);
  EXPECT_THAT(grad({&loss, 1}, {&x, 1})[0].to_vector<float>(), Each(0));
}

}  // namespace
}  // namespace mezzo
