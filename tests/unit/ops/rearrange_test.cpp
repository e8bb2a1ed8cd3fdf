// Tests stacking, splitting, padding, cumulative sums and triangles.
#include "mezzo/ops/rearrange.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/autograd/engine.h"
#include "mezzo/core/random.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/cumsum.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/shape_ops.h"
#include "mezzo/ops/triangular.h"
#include "tests/unit/message_of.h"
#include "tests/unit/threads.h"

namespace mezzo {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

Tensor counted(const Shape& shape) { return reshape(arange(shape.numel()), shape); }

std::vector<std::int64_t> sizes(const std::vector<Tensor>& parts, std::size_t axis) {
  std::vector<std::int64_t> result;
  for (const Tensor& part : parts) result.push_back(part.shape()[axis]);
  return result;
}

TEST(Stack, AddsAnAxisAnywhere) {
  const Tensor a = from_values({1.0F, 2.0F}, {2});
  const Tensor b = from_values({3.0F, 4.0F}, {2});
  EXPECT_THAT(stack({a, b}).to_vector<float>(), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(stack({a, b}, 1).to_vector<float>(), ElementsAre(1, 3, 2, 4));
  EXPECT_THAT(stack({a, b}, -1).to_vector<float>(), ElementsAre(1, 3, 2, 4));
  EXPECT_EQ(stack({a, b, a}, 0).shape(), (Shape{3, 2}));
}

TEST(Stack, RefusesOtherShapesAndNothing) {
  EXPECT_THAT(message_of([] {
                stack({zeros({2}), zeros({3})});
              }),
              HasSubstr("[stack] tensor 1 has shape [3], tensor 0 has [2]"));
  EXPECT_THAT(message_of([] { stack(std::span<const Tensor>()); }),
              HasSubstr("[stack] there are no tensors to stack"));
}

TEST(Split, PartsAreViewsOfTheSizesAskedFor) {
  const Tensor x = counted({7, 2});
  const std::vector<Tensor> parts = split(x, 3);
  EXPECT_THAT(sizes(parts, 0), ElementsAre(3, 3, 1));
  EXPECT_EQ(parts[1].storage(), x.storage());
  EXPECT_THAT(parts[2].to_vector<float>(), ElementsAre(12, 13));
  EXPECT_THAT(sizes(split(x, {1, 0, 6}), 0), ElementsAre(1, 0, 6));
  EXPECT_THAT(sizes(split(zeros({0, 2}), 3), 0), ElementsAre(0));
}

// The gradient of parts is made at once. Of five parts, it is that of slices.
TEST(Split, GradientsOfPartsAreJoined) {
  for (const std::int64_t size : {2, 4, 10}) {
    const Tensor x = counted({3, 10}).set_requires_grad(true);
    const std::vector<Tensor> parts = split(x, size, 1);
    // The second part has no gradient; where there is none, the first has all.
    Tensor total = sum(parts.front() * parts.front());
    if (parts.size() > 2) total = total + sum(parts.back() * 3.0);
    const std::vector<Tensor> first = grad({&total, 1}, {&x, 1}, {}, {.create_graph = true});
    const auto got = first[0].to_vector<float>();
    for (std::size_t i = 0; i < got.size(); ++i) {
      const auto column = static_cast<std::int64_t>(i % 10);
      const std::int64_t last = 10 - parts.back().size(1);
      const float want = column < size ? 2.0F * static_cast<float>(i) : column >= last ? 3 : 0;
      EXPECT_EQ(got[i], want) << i << " of parts of " << size;
    }
    const Tensor again = sum(first[0] * first[0]);
    const std::vector<Tensor> second = grad({&again, 1}, {&x, 1});
    EXPECT_EQ(second[0].to_vector<float>()[1], 8.0F);
    EXPECT_EQ(second[0].to_vector<float>()[9], size == 10 ? 72.0F : 0.0F);
  }
}

TEST(Split, SizesMustAddUp) {
  const Tensor x = zeros({5});
  EXPECT_THAT(message_of([&] {
                split(x, {2, 2});
              }),
              HasSubstr("[split] the sizes add up to 4, the axis has 5"));
  EXPECT_THAT(message_of([&] {
                split(x, {2, 4});
              }),
              HasSubstr("[split] part 1 has size 4, there are 3 elements left of 5"));
  EXPECT_THAT(message_of([&] { split(x, 0); }), HasSubstr("[split] the size of a part is 0"));
}

TEST(Chunk, GivesAtMostAsManyParts) {
  EXPECT_THAT(sizes(chunk(zeros({2, 6}), 3, 1), 1), ElementsAre(2, 2, 2));
  EXPECT_THAT(sizes(chunk(zeros({5}), 4), 0), ElementsAre(2, 2, 1));
  EXPECT_THAT(sizes(chunk(zeros({0}), 2), 0), ElementsAre(0, 0));
  EXPECT_THAT(message_of([] { chunk(zeros({5}), 0); }),
              HasSubstr("[chunk] the number of chunks is 0"));
}

TEST(Pad, TheLastAxisComesFirst) {
  const Tensor x = from_values({1.0F, 2.0F}, {1, 2});
  EXPECT_THAT(pad(x, {1, 2}, 9).to_vector<float>(), ElementsAre(9, 1, 2, 9, 9));
  const Tensor rows = pad(x, {0, 1, 1, 0});
  EXPECT_EQ(rows.shape(), (Shape{2, 3}));
  EXPECT_THAT(rows.to_vector<float>(), ElementsAre(0, 0, 0, 1, 2, 0));
  EXPECT_THAT(pad(x, {-1, 1}).to_vector<float>(), ElementsAre(2, 0));
  EXPECT_EQ(pad(x.astype(DType::kI64), {1, 0}, 7).dtype(), DType::kI64);
}

TEST(Pad, RefusesWhatDoesNotFit) {
  const Tensor x = zeros({1, 2});
  EXPECT_THAT(message_of([&] { pad(x, {1}); }), HasSubstr("[pad] there are 1 numbers"));
  EXPECT_THAT(message_of([&] {
                pad(x, {0, 0, 0, 0, 1, 1});
              }),
              HasSubstr("[pad] there are numbers for 3 axes, x has 2"));
  EXPECT_THAT(message_of([&] {
                pad(x, {-2, -1});
              }),
              HasSubstr("[pad] axis 1 has 2 elements, of which 2 and 1 cannot be cut off"));
}

TEST(Pad, RefusesTheSmallestInteger) {
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
  EXPECT_THAT(message_of([] { pad(zeros({4}), {kLeast, 0}); }), HasSubstr("cannot be cut off"));
  EXPECT_THAT(message_of([] { pad(zeros({4}), {0, kLeast}); }), HasSubstr("cannot be cut off"));
}

TEST(Chunk, RefusesCountlessEmptyParts) {
  EXPECT_EQ(chunk(zeros({0}), 1 << 10).size(), 1U << 10);
  EXPECT_THAT(message_of([] { chunk(zeros({0}), std::int64_t{1} << 60); }),
              HasSubstr("[chunk] an empty axis cannot have 1152921504606846976 chunks"));
}

TEST(Pad, TheGradientLeavesThePaddingOut) {
  const Tensor x = ones({2, 2}).set_requires_grad(true);
  const Tensor loss = sum(pad(x, {1, -1}) * counted({2, 2}));
  EXPECT_THAT(grad({&loss, 1}, {&x, 1})[0].to_vector<float>(), ElementsAre(1, 0, 3, 0));
}

TEST(Cumsum, RunsAlongAnyAxis) {
  const Tensor x = from_values({1.0F, 2.0F, 3.0F, 4.0F}, {2, 2});
  EXPECT_THAT(cumsum(x, 0).to_vector<float>(), ElementsAre(1, 2, 4, 6));
  EXPECT_THAT(cumsum(x, -1).to_vector<float>(), ElementsAre(1, 3, 3, 7));
}

TEST(Cumsum, CountsIntegersAndMasksInI64) {
  const Tensor mask = from_values({1.0F, 0.0F, 1.0F}, {3}).astype(DType::kBool);
  const Tensor y = cumsum(mask, 0);
  EXPECT_EQ(y.dtype(), DType::kI64);
  EXPECT_THAT(y.to_vector<std::int64_t>(), ElementsAre(1, 1, 2));
}

TEST(Cumsum, IntegersWrapAround) {
  using Limits = std::numeric_limits<std::int64_t>;
  const Tensor x = from_values(std::vector<std::int64_t>{Limits::max(), 1}, {2});
  EXPECT_THAT(cumsum(x, 0).to_vector<std::int64_t>(), ElementsAre(Limits::max(), Limits::min()));
}

TEST(Cumsum, SmallTermsSurviveLongSums) {
  const Tensor x = full({1 << 20}, 0.1F);
  EXPECT_EQ(cumsum(x, 0).to_vector<float>().back(), static_cast<float>((1 << 20) * double{0.1F}));
  // In bf16, a sum of ones would stay at 256.
  EXPECT_EQ(cumsum(ones({512}, DType::kBf16), 0).to_vector<float>().back(), 512);
}

TEST(Cumsum, AnInfinityReachesOnlyWhatFollows) {
  const Tensor x = from_values({1.0F, INFINITY, 1.0F, -INFINITY}, {4});
  EXPECT_THAT(cumsum(x, 0).to_vector<float>(),
              ElementsAre(1, INFINITY, INFINITY, testing::IsNan()));
}

TEST(Cumsum, BitsDoNotDependOnTheNumberOfThreads) {
  manual_seed(1);
  const Tensor x = randn({20, 200, 130});
  std::vector<float> first;
  for (const int threads : {1, 2, 3, 5}) {
    const test::Threads guard(threads);
    const auto y = cumsum(x, 1).to_vector<float>();
    if (first.empty()) first = y;
    EXPECT_EQ(y, first) << threads;
  }
}

TEST(Triangles, AreCutAtADiagonal) {
  const Tensor x = ones({2, 3});
  EXPECT_THAT(tril(x).to_vector<float>(), ElementsAre(1, 0, 0, 1, 1, 0));
  EXPECT_THAT(triu(x).to_vector<float>(), ElementsAre(1, 1, 1, 0, 1, 1));
  EXPECT_THAT(tril(x, 1).to_vector<float>(), ElementsAre(1, 1, 0, 1, 1, 1));
  EXPECT_THAT(triu(x, -1).to_vector<float>(), Each(1));
}

TEST(Triangles, TakeAnyDiagonal) {
  constexpr std::int64_t kFurthest = std::numeric_limits<std::int64_t>::max();
  const Tensor x = ones({2, 3});
  EXPECT_THAT(tril(x, kFurthest).to_vector<float>(), Each(1));
  EXPECT_THAT(tril(x, -kFurthest).to_vector<float>(), Each(0));
  EXPECT_THAT(triu(x, kFurthest).to_vector<float>(), Each(0));
  EXPECT_THAT(triu(x, -kFurthest).to_vector<float>(), Each(1));
}

TEST(Triangles, HideWhatIsNotANumberAndKeepTheDtype) {
  const Tensor x = full({2, 2}, std::nan(""), DType::kF16);
  EXPECT_EQ(triu(x).to_vector<float>()[2], 0);
  const Tensor mask = tril(ones({2, 2}, DType::kBool));
  EXPECT_EQ(mask.dtype(), DType::kBool);
  EXPECT_THAT(mask.astype(DType::kI64).to_vector<std::int64_t>(), ElementsAre(1, 0, 1, 1));
}

}  // namespace
}  // namespace mezzo
