// Tests gather, scatter_add and index_select beyond the sweep.
#include "mezzo/ops/gather.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/autograd/engine.h"
#include "mezzo/core/random.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/indexing.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/shape_ops.h"
#include "tests/unit/message_of.h"
#include "tests/unit/threads.h"

namespace mezzo {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using Ints = std::vector<std::int64_t>;

TEST(Gather, TakesElementsOfAnyDtype) {
  const Tensor index = from_values(Ints{1, 0, 0, 1}, {2, 2});
  for (const DType dtype : {DType::kU8, DType::kI32, DType::kI64, DType::kF16, DType::kF64}) {
    const Tensor x = from_values({1.0F, 2.0F, 3.0F, 4.0F}, {2, 2}).astype(dtype);
    const Tensor y = gather(x, 1, index);
    EXPECT_EQ(y.dtype(), dtype);
    EXPECT_THAT(y.to_vector<double>(), ElementsAre(2, 1, 3, 4)) << name_of(dtype);
  }
  const Tensor mask = from_values({1.0F, 0.0F}, {2}).astype(DType::kBool);
  const Tensor chosen = gather(mask, 0, from_values(Ints{1, 0, 1}, {3}));
  EXPECT_THAT(chosen.astype(DType::kI64).to_vector<std::int64_t>(), ElementsAre(0, 1, 0));
}

TEST(Gather, IntegersBeyondDoublesStayExact) {
  const std::int64_t large = (std::int64_t{1} << 53) + 1;
  const Tensor x = from_values(Ints{large, 1}, {2});
  const Tensor index = from_values(Ints{0, 0}, {2});
  EXPECT_THAT(gather(x, 0, index).to_vector<std::int64_t>(), ElementsAre(large, large));
  EXPECT_THAT(scatter_add(x, 0, index, from_values(Ints{2, 4}, {2})).to_vector<std::int64_t>(),
              ElementsAre(large + 6, 1));
}

TEST(ScatterAdd, IntegersWrapAround) {
  using Limits = std::numeric_limits<std::int64_t>;
  const Tensor x = from_values(Ints{Limits::max()}, {1});
  const Tensor one = from_values(Ints{1}, {1});
  EXPECT_THAT(scatter_add(x, 0, zeros({1}, DType::kI64), one).to_vector<std::int64_t>(),
              ElementsAre(Limits::min()));
}

TEST(IndexSelect, NamesThePlaceInTheResult) {
  EXPECT_THAT(message_of([] {
                index_select(zeros({2, 3}), 0, from_values(Ints{0, 5}, {2}));
              }),
              HasSubstr("index 3 is 5, out of range for 2"));
}

TEST(Gather, NamesAnIndexOutOfRange) {
  const Tensor x = zeros({2, 3});
  const Tensor index = from_values(Ints{0, 2, 1, 3}, {2, 2});
  EXPECT_THAT(message_of([&] { gather(x, 1, index); }),
              HasSubstr("[gather] index 3 is 3, out of range for 3 rows"));
  EXPECT_THAT(message_of([&] {
                gather(x, 1, from_values(Ints{-1}, {1, 1}));
              }),
              HasSubstr("index 0 is -1"));
  EXPECT_THAT(message_of([&] {
                scatter_add(x, 1, index, zeros({2, 2}));
              }),
              HasSubstr("[scatter_add] index 3 is 3, out of range for 3 rows"));
}

TEST(ScatterAdd, SixteenBitSumsAreRoundedOnce) {
  // In bf16, 256 + 1 is 256: one after another, the ones would all be lost.
  const Tensor x = from_values({256.0F}, {1}).astype(DType::kBf16);
  const Tensor y = scatter_add(x, 0, zeros({64}, DType::kI64), ones({64}, DType::kBf16));
  EXPECT_EQ(y.item(), 320);
}

TEST(ScatterAdd, ElementsThatNoIndexNamesStay) {
  const Tensor x = from_values({1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F}, {2, 3});
  const Tensor index = from_values(Ints{1, 1}, {1, 2});
  const Tensor source = from_values({10.0F, 20.0F}, {1, 2});
  EXPECT_THAT(scatter_add(x, 0, index, source).to_vector<float>(), ElementsAre(1, 2, 3, 14, 25, 6));
  EXPECT_THAT(scatter_add(x, 1, index, source).to_vector<float>(), ElementsAre(1, 32, 3, 4, 5, 6));
}

TEST(ScatterAdd, BitsDoNotDependOnTheNumberOfThreads) {
  manual_seed(1);
  for (const std::int64_t axis : {0, 1, 2}) {
    const Tensor x = randn({30, 70, 40});
    const Tensor source = randn({30, 70, 40});
    const Tensor index = argmax(randn({30, 70, 40, 30}), 3);
    std::vector<float> first;
    for (const int threads : {1, 2, 3, 5}) {
      const test::Threads guard(threads);
      const auto y = scatter_add(x, axis, index, source).to_vector<float>();
      if (first.empty()) first = y;
      EXPECT_EQ(y, first) << axis << ", " << threads;
    }
  }
}

TEST(IndexSelect, TakesSlices) {
  const Tensor x = from_values({1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F}, {2, 3});
  const Tensor index = from_values(Ints{1, 1, 0}, {3});
  EXPECT_THAT(index_select(x, 0, index).to_vector<float>(), ElementsAre(4, 5, 6, 4, 5, 6, 1, 2, 3));
  EXPECT_THAT(index_select(x, -1, index).to_vector<float>(), ElementsAre(2, 2, 1, 5, 5, 4));
  const Tensor columns = transpose(x);  // rows that are not contiguous
  EXPECT_THAT(index_select(columns, 0, index).to_vector<float>(), ElementsAre(2, 5, 2, 5, 1, 4));
  EXPECT_THAT(message_of([&] {
                index_select(x, 0, zeros({1, 2}, DType::kI64));
              }),
              HasSubstr("[index_select] the index has shape [1, 2], one axis is needed"));
}

TEST(IndexSelect, ItsGradientCountsTheSlices) {
  const Tensor x = ones({3, 2}).set_requires_grad(true);
  const Tensor loss = sum(index_select(x, 0, from_values(Ints{2, 0, 2}, {3})));
  EXPECT_THAT(grad({&loss, 1}, {&x, 1})[0].to_vector<float>(), ElementsAre(1, 1, 0, 0, 2, 2));
}

}  // namespace
}  // namespace mezzo
