#include "mezzo/ops/compare.h"

#include <cmath>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/amp/autocast.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/shape_ops.h"
#include "tests/unit/message_of.h"
#include "tests/unit/ops/support.h"

namespace mezzo {
namespace {

using Bools = std::vector<bool>;
using Pairs = Tensor (*)(const Tensor&, const Tensor&);
using Numbers = Tensor (*)(const Tensor&, double);
using testing::ElementsAre;

struct Relations {
  Pairs pairs;
  Numbers numbers;
};
constexpr Relations kAll[] = {{eq, eq}, {ne, ne}, {lt, lt}, {le, le}, {gt, gt}, {ge, ge}};

Bools answers(const Tensor& mask) {
  EXPECT_EQ(mask.dtype(), DType::kBool);
  EXPECT_FALSE(mask.requires_grad());
  return mask.to_vector<bool>();
}

TEST(Compare, Numbers) {
  const Tensor a =
      from_values({-1.0F, 0.0F, 2.0F, INFINITY, NAN, 1.0F}, {6}).set_requires_grad(true);
  const Tensor b = from_values({0.0F, -0.0F, 1.0F, INFINITY, NAN, NAN}, {6});
  EXPECT_THAT(answers(eq(a, b)), ElementsAre(false, true, false, true, false, false));
  EXPECT_THAT(answers(ne(a, b)), ElementsAre(true, false, true, false, true, true));
  EXPECT_THAT(answers(lt(a, b)), ElementsAre(true, false, false, false, false, false));
  EXPECT_THAT(answers(le(a, b)), ElementsAre(true, true, false, true, false, false));
  EXPECT_THAT(answers(gt(a, b)), ElementsAre(false, false, true, false, false, false));
  EXPECT_THAT(answers(ge(a, b)), ElementsAre(false, true, true, true, false, false));
}

TEST(Compare, WithOneNumber) {
  const Tensor x = from_values({-1.0F, 0.0F, 2.0F, NAN}, {4});
  EXPECT_THAT(answers(eq(x, 0)), ElementsAre(false, true, false, false));
  EXPECT_THAT(answers(ne(x, 0)), ElementsAre(true, false, true, true));
  EXPECT_THAT(answers(lt(x, 0)), ElementsAre(true, false, false, false));
  EXPECT_THAT(answers(le(x, 0)), ElementsAre(true, true, false, false));
  EXPECT_THAT(answers(gt(x, 0)), ElementsAre(false, false, true, false));
  EXPECT_THAT(answers(ge(x, 0)), ElementsAre(false, true, true, false));
}

// The number is rounded to the nearest f32 value, as everywhere.
TEST(Compare, WithANumberThatF32DoesNotHold) {
  EXPECT_THAT(answers(eq(from_values({0.1F}, {1}), 0.1)), ElementsAre(true));
  EXPECT_THAT(answers(eq(from_values({0.1}, {1}), 0.1)), ElementsAre(true));
  EXPECT_THAT(answers(eq(from_values({0.1F}, {1}).astype(DType::kBf16), 0.1)), ElementsAre(false));
}

// A double cannot distinguish these integers.
TEST(Compare, IntegersAreExact) {
  constexpr std::int64_t kLarge = std::int64_t{1} << 60;
  const Tensor a = from_values<std::int64_t>({kLarge, -3, 5}, {3});
  const Tensor b = from_values<std::int64_t>({kLarge + 1, 2, 5}, {3});
  EXPECT_THAT(answers(eq(a, b)), ElementsAre(false, false, true));
  EXPECT_THAT(answers(lt(a, b)), ElementsAre(true, true, false));
  EXPECT_THAT(answers(ge(b, a)), ElementsAre(true, true, true));
  EXPECT_THAT(answers(lt(a, 4.5)), ElementsAre(false, true, false));
  const Tensor bytes = from_values<std::uint8_t>({0, 200, 255}, {3});
  EXPECT_THAT(answers(gt(bytes, 199)), ElementsAre(false, true, true));
  EXPECT_THAT(answers(gt(bytes, -1)), ElementsAre(true, true, true));
}

TEST(Compare, Masks) {
  const Tensor mask = gt(from_values({1.0F, -1.0F, 2.0F}, {3}), 0);
  EXPECT_THAT(answers(eq(mask, 0)), ElementsAre(false, true, false));
  EXPECT_THAT(answers(ne(mask, from_values<std::int64_t>({0, 0, 1}, {3}))),
              ElementsAre(true, false, false));
  EXPECT_THAT(answers(eq(mask, mask)), ElementsAre(true, true, true));
}

TEST(Compare, PromotesAndBroadcasts) {
  const Tensor rows = reshape(arange(3, DType::kI64), {3, 1});
  const Tensor columns = reshape(arange(3, DType::kF32), {1, 3});
  EXPECT_THAT(answers(ge(rows, columns)),
              ElementsAre(true, false, false, true, true, false, true, true, true));
}

// In every dtype and layout the answers are those of f64, which only the plain loop computes.
TEST(Compare, EveryDTypeAndLayoutAgreesWithF64) {
  for (const DType dtype : test::kVectorDTypes) {
    const Tensor a = test::random_tensor({3, 5, 35}, 1, dtype);
    const Tensor b = test::random_tensor({3, 5, 35}, 2, dtype);
    const Tensor views[][2] = {{a, b},
                               {a, slice(b, 0, 1, 2)},
                               {slice(a, 2, 0, 1), b},
                               {slice(a, 2, 1, 35, 2), slice(b, 2, 0, 34, 2)},
                               {permute(a, {2, 0, 1}), permute(b, {2, 0, 1})},
                               {permute(a, {2, 0, 1}), permute(slice(b, 1, 2, 3), {2, 0, 1})}};
    for (const auto& [x, y] : views) {
      const Tensor wide_x = x.astype(DType::kF64);
      const Tensor wide_y = y.astype(DType::kF64);
      for (const auto& [pairs, numbers] : kAll) {
        EXPECT_EQ(answers(pairs(x, y)), answers(pairs(wide_x, wide_y))) << name_of(dtype);
        EXPECT_EQ(answers(numbers(x, 0.25)), answers(numbers(wide_x, 0.25))) << name_of(dtype);
      }
    }
  }
}

// 256 and 257 are the same bf16 value.
TEST(Compare, NothingIsRoundedInMixedPrecision) {
  const Tensor a = from_values({256.0F}, {1});
  const Tensor b = from_values({257.0F}, {1});
  for (const amp::Level level : {amp::Level::kAuto, amp::Level::kO2, amp::Level::kO3}) {
    const amp::Autocast region({.level = level, .lower = DType::kBf16});
    EXPECT_THAT(answers(lt(a, b)), ElementsAre(true)) << name_of(level);
    EXPECT_THAT(answers(lt(a.astype(DType::kBf16), b)), ElementsAre(true)) << name_of(level);
    EXPECT_THAT(answers(lt(b, 257.5)), ElementsAre(true)) << name_of(level);
    EXPECT_THAT(answers(gt(b, 256)), ElementsAre(true)) << name_of(level);
  }
}

TEST(Compare, RefusesShapesThatDoNotBroadcast) {
  EXPECT_THAT(message_of<ArgumentError>([] {
                lt(ones({2, 3}), ones({2}));
              }),
              testing::StartsWith("[compare] shapes cannot be broadcast together"));
}

}  // namespace
}  // namespace mezzo
