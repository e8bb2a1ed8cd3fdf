#include "mezzo/ops/reduce.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/core/random.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/shape_ops.h"
#include "tests/unit/message_of.h"
#include "tests/unit/special_values.h"
#include "tests/unit/threads.h"

namespace mezzo {
namespace {

using Floats = std::vector<float>;

// Every test runs with several thread counts, whatever the machine has.
class Reduce : public testing::TestWithParam<int> {
  test::Threads guard_{GetParam()};
};

TEST_P(Reduce, ManyEqualBf16NumbersAreCounted) {
  // Added up in bf16, ones would stop counting at 256.
  const std::int64_t n = 1 << 20;
  const Tensor ones_16 = ones({n}, DType::kBf16);
  EXPECT_EQ(sum(ones_16, {}, false, DType::kF32).item(), n);
  const std::int64_t rows = n / 8;
  EXPECT_EQ(sum(reshape(ones_16, {rows, 8}), {0}, false, DType::kF32).to_vector<float>(),
            Floats(8, static_cast<float>(rows)));
  EXPECT_EQ(mean(ones_16).item(), 1);
}

TEST_P(Reduce, TheErrorDoesNotGrowWithTheLength) {
  // A single f32 accumulator would be off by 15 % here. One lane of a block adds 64 values, each
  // with an error of at most half a unit.
  const std::int64_t n = 1 << 24;
  const Tensor x = full({n}, 0.1);
  const double exact = static_cast<double>(0.1F) * static_cast<double>(n);
  EXPECT_NEAR(sum(x).item(), exact, exact * 0x1p-19);
  EXPECT_NEAR(sum(reshape(x, {n / 4, 4}), {0}).to_vector<float>()[3], exact / 4,
              exact / 4 * 0x1p-19);
}

// Sums over every set of axes of dense, channels-last and strided tensors, compared with f64; large
// enough for several threads.
TEST_P(Reduce, EverySetOfAxesInEveryLayout) {
  Generator generator(9);
  const Tensor x = randn({6, 35, 18, 21}, generator);
  const Tensor strided = slice(randn({6, 35, 18, 42}, generator), 3, 1, 42, 2);
  const std::vector<Tensor> layouts = {x, to_format(x, Format::kChannelsLast), strided,
                                       permute(x, {2, 0, 3, 1}),
                                       expand(slice(x, 1, 0, 1), {6, 35, 18, 21})};
  for (std::size_t layout = 0; layout < layouts.size(); ++layout) {
    const Tensor& t = layouts[layout];
    for (unsigned mask = 1; mask < 16; ++mask) {
      Shape axes;
      for (std::int64_t axis = 0; axis < 4; ++axis) {
        if ((mask >> axis & 1U) != 0) axes.push_back(axis);
      }
      const auto got = sum(t, axes).to_vector<double>();
      const auto want = sum(t.astype(DType::kF64), axes).to_vector<double>();
      const auto most = max(t, axes).to_vector<double>();
      const auto want_most = max(t.astype(DType::kF64), axes).to_vector<double>();
      ASSERT_EQ(most, want_most) << "layout " << layout << " axes " << mask;
      ASSERT_EQ(got.size(), want.size());
      for (std::size_t i = 0; i < got.size(); ++i) {
        // 80 thousand terms near 1 in blocks: a few thousand roundings of partial sums near 60.
        ASSERT_NEAR(got[i], want[i], 1e-3) << "layout " << layout << " axes " << mask;
      }
    }
  }
}

TEST_P(Reduce, GivesTheSameBitsEveryTime) {
  Generator generator(2);
  const Tensor x = randn({64, 17, 33}, generator);
  const Floats first = sum(x, {0, 1}).to_vector<float>();
  const double all = sum(x).item();
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(sum(x, {0, 1}).to_vector<float>(), first);
    EXPECT_EQ(sum(x).item(), all);
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, Reduce, testing::Values(1, 2, 5));

TEST(Sum, OfNothingIsZero) {
  EXPECT_EQ(sum(zeros({0})).item(), 0);
  EXPECT_EQ(sum(zeros({3, 0, 2}), {1}).to_vector<float>(), Floats(6, 0));
}

TEST(Sum, OfIntegersIsExact) {
  const Tensor x = from_values<std::int64_t>({1LL << 40, 1, -3}, {3});
  EXPECT_EQ(sum(x).dtype(), DType::kI64);
  EXPECT_EQ(sum(x).to_vector<std::int64_t>()[0], (1LL << 40) - 2);
}

// A double is only exact up to 2^53.
TEST(Reductions, OfLargeIntegersAreExactAndWrapAround) {
  constexpr std::int64_t kBig = std::int64_t{1} << 53;
  constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();
  using Integers = std::vector<std::int64_t>;
  const Tensor x = from_values<std::int64_t>({kBig, kBig + 1, -kBig - 1, 1, kLargest, 1}, {3, 2});
  EXPECT_EQ(sum(x, {1}).to_vector<std::int64_t>(),
            (Integers{2 * kBig + 1, -kBig, std::numeric_limits<std::int64_t>::lowest()}));
  EXPECT_EQ(sum(permute(x, {1, 0}), {0}).to_vector<std::int64_t>(),
            sum(x, {1}).to_vector<std::int64_t>());
  EXPECT_EQ(max(x, {1}).to_vector<std::int64_t>(), (Integers{kBig + 1, 1, kLargest}));
  EXPECT_EQ(max(x).to_vector<std::int64_t>(), (Integers{kLargest}));
  EXPECT_EQ(sum(zeros({0, 2}, DType::kI64), {0}).to_vector<std::int64_t>(), (Integers{0, 0}));
  const Tensor small = from_values<std::int32_t>({-5, -7}, {2});
  EXPECT_EQ(max(small).dtype(), DType::kI32);
  EXPECT_EQ(max(small).item(), -5);
}

// Summed in the inputs' own dtype, or rounded to it on the way, these would wrap or overflow.
TEST(Sum, OfSmallTypesIsMadeInTheOneAskedFor) {
  for (const DType dtype : {DType::kU8, DType::kBool, DType::kI32}) {
    const Tensor x = ones({1000}, dtype);
    EXPECT_EQ(sum(x).dtype(), DType::kI64);
    EXPECT_EQ(sum(x).item(), 1000);
    for (const DType wanted : {DType::kF32, DType::kF64, DType::kI32, DType::kI64}) {
      const Tensor total = sum(x, {}, false, wanted);
      EXPECT_EQ(total.dtype(), wanted);
      EXPECT_EQ(total.item(), 1000) << name_of(dtype) << " in " << name_of(wanted);
    }
  }
  EXPECT_EQ(sum(full({3}, 1 << 30, DType::kI32)).item(), 3.0 * (1 << 30));
  const Tensor large = full({4}, 60000, DType::kF16);
  const double total = 4 * static_cast<double>(static_cast<float>(Float16(60000.0F)));
  for (const DType wanted : {DType::kF64, DType::kI64}) {
    EXPECT_EQ(sum(large, {}, false, wanted).item(), total) << name_of(wanted);
  }
  EXPECT_EQ(sum(large, {}, false, DType::kBf16).item(),
            static_cast<float>(BFloat16(static_cast<float>(total))));
  const Tensor close = from_values({1.0F, 0x1p-30F}, {2});
  EXPECT_EQ(sum(close, {}, false, DType::kF64).item(), 1 + 0x1p-30);
}

TEST(Sum, OfF16MayBeAskedForInF32) {
  const Tensor x = full({2}, 60000, DType::kF16);
  EXPECT_EQ(sum(x).item(), kInf);
  EXPECT_EQ(sum(x, {}, false, DType::kF32).item(), 2 * static_cast<float>(Float16(60000.0F)));
}

TEST(Max, FindsNanAndInfinities) {
  EXPECT_EQ(max(from_values({-kInf, -kInf}, {2})).item(), -kInf);
  EXPECT_EQ(max(from_values({1.0F, kInf, -kInf}, {3})).item(), kInf);
  for (const std::int64_t n : {3, 17, 40, 200}) {
    for (const std::int64_t at : {std::int64_t{0}, n / 2, n - 1}) {
      Floats values(static_cast<std::size_t>(n), kInf);
      values[static_cast<std::size_t>(at)] = kNan;
      EXPECT_TRUE(std::isnan(max(from_values(values, {n})).item())) << at << " of " << n;
      EXPECT_TRUE(std::isnan(max(from_values(values, {n, 1}), {0}).item())) << at << " of " << n;
    }
  }
}

TEST(Max, GradientsOfOtherShapesAreRefused) {
  const Tensor x = zeros({2, 3});
  for (const Shape& shape : {Shape{3, 1}, Shape{1, 2}, Shape{2}, Shape{1, 1, 1}, Shape{2, 0}}) {
    EXPECT_EQ(message_of<ArgumentError>([&] { max_grad(ones(shape), x, zeros(shape)); }),
              concat("[max_grad] x has shape [2, 3], its maximum ", shape,
                     ". Keep the reduced axes with size 1"));
  }
}

TEST(Max, TiesShareTheGradient) {
  const Tensor x = from_values({1.0F, 5.0F, 5.0F, 2.0F, 7.0F, 0.0F}, {2, 3});
  Tensor leaf = x.detach().set_requires_grad(true);
  max(leaf, {1}).backward(from_values({3.0F, 4.0F}, {2}));
  EXPECT_EQ(leaf.grad().to_vector<float>(), (Floats{0, 1.5F, 1.5F, 0, 4, 0}));
  leaf = full({4}, 2, DType::kBf16).set_requires_grad(true);
  max(leaf).backward();
  EXPECT_EQ(leaf.grad().to_vector<float>(), Floats(4, 0.25F));
}

TEST(Max, ManyTiesAreCounted) {
  constexpr std::int64_t kCount = (1 << 24) + 1000;
  const Tensor x = zeros({kCount}).set_requires_grad(true);
  max(x).backward();
  EXPECT_EQ(slice(x.grad(), 0, 0, 1).item(), double{1.0F / float{kCount}});
}

TEST(Mean, GradientIsAnEqualShare) {
  const Tensor x = full({2, 4}, 3).set_requires_grad(true);
  sum(mean(x, {1})).backward();
  EXPECT_EQ(x.grad().to_vector<float>(), Floats(8, 0.25F));
}

TEST(Reductions, RefuseBadAxes) {
  EXPECT_THROW(sum(zeros({2, 3}), {2}), ArgumentError);
  EXPECT_THROW(mean(zeros({2, 3}), {0, 0}), ArgumentError);
  EXPECT_THROW(max(zeros({2, 0})), ArgumentError);
}

}  // namespace
}  // namespace mezzo
