// Tests rotary position embedding beyond the sweep.
#include "mezzo/ops/rope.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/autograd/engine.h"
#include "mezzo/core/random.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/shape_ops.h"
#include "tests/unit/message_of.h"
#include "tests/unit/threads.h"

namespace mezzo {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Tensor random_values(const Shape& shape) {
  manual_seed(3);
  return randn(shape);
}

TEST(Rope, PairsAreHalvesOrNeighbours) {
  // One row at position 1, of which only element 0 is not 0. Pair 0 turns by one radian.
  const Tensor x = from_values({1.0F, 0.0F, 0.0F, 0.0F}, {1, 4});
  const auto c = static_cast<float>(std::cos(1.0));
  const auto s = static_cast<float>(std::sin(1.0));
  EXPECT_THAT(rope(x, {.offset = 1}).to_vector<float>(), ElementsAre(c, 0, s, 0));
  EXPECT_THAT(rope(x, {.offset = 1, .pairing = RopePairing::kNeighbours}).to_vector<float>(),
              ElementsAre(c, s, 0, 0));
}

TEST(Rope, TheSecondPairTurnsByTheRootOfTheta) {
  const Tensor x = from_values({0.0F, 1.0F, 0.0F, 0.0F}, {1, 4});
  const auto y = rope(x, {.theta = 100, .offset = 5}).to_vector<double>();
  EXPECT_NEAR(y[1], std::cos(0.5), 1e-7);  // 5 * 100^(-2 / 4)
  EXPECT_NEAR(y[3], std::sin(0.5), 1e-7);
}

TEST(Rope, TheSequenceIsAnyAxisBeforeTheLast) {
  const Tensor x = random_values({2, 5, 3, 8});  // [b, t, h, d]
  const Tensor by_axis = rope(x, {.axis = 1});
  const Tensor by_heads = transpose(rope(transpose(x, 1, 2)), 1, 2);
  EXPECT_EQ(by_axis.to_vector<float>(), by_heads.to_vector<float>());
}

TEST(Rope, ARowHasTheSameBitsAlone) {
  const Tensor x = random_values({40, 16});
  for (const std::int64_t from : {0, 5, 15, 16, 33}) {
    const Tensor some = rope(slice(x, 0, from, 40), {.offset = from});
    EXPECT_EQ(some.to_vector<float>(), slice(rope(x), 0, from, 40).to_vector<float>()) << from;
  }
}

TEST(Rope, PositionsMayBeGiven) {
  const Tensor x = random_values({2, 3, 8});
  const Tensor counted = rope(x, {.offset = 4});
  const Tensor given = rope(x, from_values({4, 5, 6}, {3}));
  EXPECT_EQ(given.to_vector<float>(), counted.to_vector<float>());
  const Tensor each = rope(x, from_values({4, 5, 6, 0, 1, 2}, {2, 3}));
  EXPECT_EQ(slice(each, 0, 0, 1).to_vector<float>(), slice(counted, 0, 0, 1).to_vector<float>());
  EXPECT_EQ(slice(each, 0, 1, 2).to_vector<float>(), slice(rope(x), 0, 1, 2).to_vector<float>());
}

TEST(Rope, RefusesPositionsThatF64CannotCount) {
  using Limits = std::numeric_limits<std::int64_t>;
  for (const std::int64_t position : {Limits::max(), Limits::min()}) {
    const Tensor positions = from_values(std::vector<std::int64_t>{position}, {1});
    for (const std::int64_t offset : {-1, 0, 1}) {
      EXPECT_THAT(message_of([&] {
                    rope(ones({1, 4}), positions, {.offset = offset});
                  }),
                  HasSubstr("is beyond 2^53"))
          << position;
    }
  }
}

TEST(Rope, FarPositionsAreAsAccurateAsNearOnes) {
  const Tensor x = random_values({3, 64});
  for (const std::int64_t offset : {1000LL, 1'000'000LL, -1'000'000LL}) {
    const auto got = rope(x, {.offset = offset}).to_vector<double>();
    const auto want = rope(x.astype(DType::kF64), {.offset = offset}).to_vector<double>();
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_NEAR(got[i], want[i], 16 * 0x1p-24) << offset << ", " << i;  // values up to 4
    }
  }
}

TEST(Rope, TheGradientRotatesBack) {
  const Tensor x = random_values({2, 7, 8}).set_requires_grad(true);
  const Tensor y = rope(x, {.offset = 3, .pairing = RopePairing::kNeighbours});
  const Tensor loss = sum(y * y.detach());
  const auto back = grad({&loss, 1}, {&x, 1})[0].to_vector<double>();
  const auto want = x.to_vector<double>();
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(back[i], want[i], 2e-6) << i;
}

TEST(Rope, BitsDoNotDependOnTheNumberOfThreads) {
  const Tensor x = random_values({4, 300, 64});
  std::vector<float> first;
  for (const int threads : {1, 2, 3, 5}) {
    const test::Threads guard(threads);
    const auto y = rope(x).to_vector<float>();
    if (first.empty()) first = y;
    EXPECT_EQ(y, first) << threads;
  }
}

}  // namespace
}  // namespace mezzo
