// Tests sorting, and the smallest elements.
#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/amp/autocast.h"
#include "mezzo/autograd/engine.h"
#include "mezzo/core/random.h"
#include "mezzo/ops/argsort.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/min.h"
#include "mezzo/ops/reduce.h"
#include "tests/unit/message_of.h"
#include "tests/unit/threads.h"

namespace mezzo {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsNan;

using Ints = std::vector<std::int64_t>;

TEST(Sort, NotANumberIsTheLargest) {
  const Tensor x = from_values({2.0F, NAN, -INFINITY, INFINITY, -1.0F, -NAN}, {6});
  const Sorted up = sort(x);
  EXPECT_THAT(up.values.to_vector<float>(),
              ElementsAre(-INFINITY, -1, 2, INFINITY, IsNan(), IsNan()));
  EXPECT_THAT(up.indices.to_vector<std::int64_t>(), ElementsAre(2, 4, 0, 3, 1, 5));
  const Sorted down = sort(x, 0, true);
  EXPECT_THAT(down.values.to_vector<float>(),
              ElementsAre(IsNan(), IsNan(), INFINITY, 2, -1, -INFINITY));
  EXPECT_THAT(down.indices.to_vector<std::int64_t>(), ElementsAre(1, 5, 3, 0, 4, 2));
}

TEST(Sort, EqualElementsKeepTheirOrder) {
  const Tensor x = from_values({0.0F, 1.0F, -0.0F, 1.0F, 0.0F}, {5});
  EXPECT_THAT(argsort(x).to_vector<std::int64_t>(), ElementsAre(0, 2, 4, 1, 3));
  EXPECT_THAT(argsort(x, 0, true).to_vector<std::int64_t>(), ElementsAre(1, 3, 0, 2, 4));
}

TEST(Sort, TakesAnyDtypeAndAxis) {
  const Tensor x = from_values({3.0F, 1.0F, 2.0F, 4.0F}, {2, 2});
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16, DType::kF64, DType::kI64,
                            DType::kI32, DType::kU8}) {
    const Sorted columns = sort(x.astype(dtype), 0);
    EXPECT_EQ(columns.values.dtype(), dtype);
    EXPECT_THAT(columns.values.to_vector<double>(), ElementsAre(2, 1, 3, 4)) << name_of(dtype);
    EXPECT_THAT(columns.indices.to_vector<std::int64_t>(), ElementsAre(1, 0, 0, 1));
  }
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
  const Tensor wide = from_values(Ints{5, kLeast, -1, 6}, {4});
  EXPECT_THAT(sort(wide).values.to_vector<std::int64_t>(), ElementsAre(kLeast, -1, 5, 6));
}

TEST(Topk, TheFirstOfEqualElementsCounts) {
  const Tensor x = from_values({1.0F, 3.0F, 2.0F, 3.0F, 3.0F, 0.0F}, {6});
  EXPECT_THAT(topk(x, 2).indices.to_vector<std::int64_t>(), ElementsAre(1, 3));
  EXPECT_THAT(topk(x, 2, 0, false).values.to_vector<float>(), ElementsAre(0, 1));
  EXPECT_EQ(topk(x, 0).values.shape(), Shape{0});
  EXPECT_THAT(message_of([&] { topk(x, 7); }), HasSubstr("[topk] k is 7, the axis has 6 elements"));
}

TEST(Topk, IsTheBeginningOfTheWholeOrder) {
  manual_seed(1);
  const Tensor x = randn({3, 1000, 5});
  for (const bool largest : {false, true}) {
    const Ints all = sort(x, 1, largest).indices.to_vector<std::int64_t>();
    const Ints some = topk(x, 17, 1, largest).indices.to_vector<std::int64_t>();
    for (std::size_t i = 0; i < some.size(); ++i) {
      EXPECT_EQ(some[i], all[i / 85 * 5000 + i % 85]) << i;
    }
  }
}

TEST(Topk, TheGradientGoesToTheChosenElements) {
  const Tensor x = from_values({1.0F, 3.0F, 2.0F}, {3}).set_requires_grad(true);
  const Tensor loss = sum(topk(x, 2).values * from_values({10.0F, 20.0F}, {2}));
  EXPECT_THAT(grad({&loss, 1}, {&x, 1})[0].to_vector<float>(), ElementsAre(0, 10, 20));
}

TEST(Sort, DoesNotDependOnTheNumberOfThreads) {
  manual_seed(2);
  const Tensor x = randn({40, 300});
  Ints first;
  for (const int threads : {1, 2, 3, 5}) {
    const test::Threads guard(threads);
    const Ints indices = argsort(x).to_vector<std::int64_t>();
    if (first.empty()) first = indices;
    EXPECT_EQ(indices, first) << threads;
  }
}

TEST(Min, ReducesAnyAxesOfAnyDtype) {
  const Tensor x = from_values({3.0F, 1.0F, 2.0F, 4.0F}, {2, 2});
  EXPECT_EQ(min(x).item(), 1);
  EXPECT_THAT(min(x, {0}).to_vector<float>(), ElementsAre(2, 1));
  EXPECT_EQ(min(x, {1}, true).shape(), (Shape{2, 1}));
  for (const DType dtype : {DType::kI64, DType::kI32, DType::kU8, DType::kF16, DType::kF64}) {
    EXPECT_EQ(min(x.astype(dtype)).dtype(), dtype);
    EXPECT_EQ(min(x.astype(dtype)).astype(DType::kF32).item(), 1) << name_of(dtype);
  }
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
  EXPECT_THAT(min(from_values(Ints{5, kLeast}, {2})).to_vector<std::int64_t>(),
              ElementsAre(kLeast));
  EXPECT_THROW(min(zeros({2, 0}), {1}), ArgumentError);
}

TEST(Min, NotANumberWins) {
  const Tensor x = from_values({1.0F, NAN, -INFINITY, 2.0F}, {2, 2});
  EXPECT_THAT(min(x, {1}).to_vector<float>(), ElementsAre(IsNan(), -INFINITY));
  EXPECT_THAT(argmin(x, 1).to_vector<std::int64_t>(), ElementsAre(1, 0));
}

TEST(Min, TheGradientIsSharedByEqualElements) {
  const Tensor x = from_values({1.0F, 3.0F, 1.0F}, {3}).set_requires_grad(true);
  const Tensor loss = min(x);
  EXPECT_THAT(grad({&loss, 1}, {&x, 1})[0].to_vector<float>(), ElementsAre(0.5F, 0, 0.5F));
}

TEST(Argmin, TheFirstOfEqualElementsCounts) {
  EXPECT_EQ(argmin(from_values({2.0F, 1.0F, 1.0F}, {3})).to_vector<std::int64_t>()[0], 1);
  EXPECT_EQ(argmin(from_values(Ints{2, 1, 1}, {3})).to_vector<std::int64_t>()[0], 1);
}

TEST(Argmin, RegionsDoNotRound) {
  const Tensor x = from_values({1.001F, 1.0F}, {2});
  const amp::Autocast region({.level = amp::Level::kO2, .lower = DType::kBf16});
  EXPECT_EQ(argmin(x).to_vector<std::int64_t>()[0], 1);
  EXPECT_EQ(min(full({2}, 1.001F)).item(), 1.001F);
}

}  // namespace
}  // namespace mezzo
