#include "mezzo/ops/select.h"

#include <cmath>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/amp/autocast.h"
#include "mezzo/autograd/engine.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/compare.h"
#include "mezzo/ops/dispatcher/dispatch.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/shape_ops.h"
#include "mezzo/ops/softmax.h"
#include "tests/unit/message_of.h"
#include "tests/unit/ops/support.h"

namespace mezzo {
namespace {

using Floats = std::vector<float>;
using Integers = std::vector<std::int64_t>;
using testing::Each;
using testing::ElementsAre;

Tensor mask_of(const std::vector<std::uint8_t>& values, const Shape& shape) {
  return ne(from_values(std::span(values), shape), 0);
}

Tensor leaf(const Floats& values) {
  return from_values(values, {static_cast<std::int64_t>(values.size())}).set_requires_grad(true);
}

TEST(Where, ChoosesAndBroadcasts) {
  const Tensor mask = mask_of({1, 0, 1}, {3});
  const Tensor a = from_values({1.0F, NAN, 3.0F}, {3});
  EXPECT_THAT(where(mask, a, zeros({})).to_vector<float>(), ElementsAre(1, 0, 3));
  const Tensor rows = where(mask_of({1, 0}, {2, 1}), from_values({1.0F, 2.0F}, {2}), full({}, 7));
  EXPECT_EQ(rows.shape(), (Shape{2, 2}));
  EXPECT_THAT(rows.to_vector<float>(), ElementsAre(1, 2, 7, 7));
}

// The values not chosen would turn a sum of products into NaN.
TEST(Where, GradientIsZeroWhereNotChosen) {
  const Tensor mask = mask_of({1, 0, 1}, {3});
  const Tensor a = leaf({1, 2, 3});
  const Tensor b = leaf({4});
  const Tensor weights = from_values({2.0F, INFINITY, 5.0F}, {3});
  sum(where(mask, a, b) * weights).backward();
  EXPECT_THAT(a.grad().to_vector<float>(), ElementsAre(2, 0, 5));
  EXPECT_THAT(b.grad().to_vector<float>(), ElementsAre(INFINITY));
}

TEST(Where, EveryDTypeMovesAsItIs) {
  constexpr std::int64_t kLarge = (std::int64_t{1} << 60) + 1;
  const Tensor mask = mask_of({0, 1}, {2});
  const Tensor large = from_values<std::int64_t>({1, kLarge}, {2});
  EXPECT_THAT(where(mask, large, large * large).to_vector<std::int64_t>(), ElementsAre(1, kLarge));
  EXPECT_THAT(where(mask, mask, eq(mask, 0)).to_vector<bool>(), Each(true));
  for (const DType dtype : {DType::kF64, DType::kF16, DType::kBf16, DType::kI32, DType::kU8}) {
    const Tensor x = from_values({3.0F, 5.0F}, {2}).astype(dtype);
    const Tensor y = where(mask, x, zeros({}, dtype));
    EXPECT_EQ(y.dtype(), dtype);
    EXPECT_THAT(y.to_vector<float>(), ElementsAre(0, 5)) << name_of(dtype);
  }
}

// A mask has elements of one byte, the others of two or four.
TEST(Where, MasksAndOperandsOfAnyLayout) {
  for (const DType dtype : test::kVectorDTypes) {
    const Tensor a = permute(test::random_tensor({5, 37, 3}, 1, dtype), {2, 1, 0});
    const Tensor b = slice(test::random_tensor({3, 37, 11}, 2, dtype), 2, 1, 11, 2);
    const Tensor mask = permute(gt(test::random_tensor({37, 5, 3}, 3), 0), {2, 0, 1});
    const Floats y = where(mask, a, b).to_vector<float>();
    const Floats of_a = a.to_vector<float>();
    const Floats of_b = b.to_vector<float>();
    const std::vector<bool> chosen = mask.to_vector<bool>();
    for (std::size_t i = 0; i < y.size(); ++i) {
      ASSERT_EQ(y[i], chosen[i] ? of_a[i] : of_b[i]) << name_of(dtype) << " element " << i;
    }
  }
}

TEST(Where, WidestInMixedPrecision) {
  const amp::Autocast region(DType::kBf16);
  const Tensor mask = mask_of({1, 0}, {2});
  const Tensor half = ones({2}, DType::kBf16);
  EXPECT_EQ(where(mask, half, zeros({})).dtype(), DType::kF32);
  EXPECT_EQ(where(mask, half, half).dtype(), DType::kBf16);
  EXPECT_EQ(masked_fill(half, mask, -INFINITY).dtype(), DType::kBf16);
}

TEST(Where, RefusesMasksOfNumbers) {
  EXPECT_THAT(message_of<ArgumentError>([] { where(ones({2}), ones({2}), ones({2})); }),
              testing::HasSubstr("condition must be bool, it is f32"));
  EXPECT_THAT(message_of<ArgumentError>([] { masked_fill(ones({2}), ones({2}), 0); }),
              testing::HasSubstr("mask must be bool, it is f32. Compare it with something, such as "
                                 "ne(mask, 0)"));
}

TEST(MaskedFill, FillsAndRounds) {
  const Tensor mask = mask_of({0, 1}, {2});
  EXPECT_THAT(masked_fill(from_values({NAN, 2.0F}, {2}), eq(mask, 0), 0.1).to_vector<float>(),
              ElementsAre(0.1F, 2));
  const Tensor half = ones({2}, DType::kF16);
  EXPECT_THAT(masked_fill(half, mask, -INFINITY).to_vector<float>(), ElementsAre(1, -INFINITY));
  EXPECT_THAT(masked_fill(ones({3, 1}), mask, 5).to_vector<float>(), ElementsAre(1, 5, 1, 5, 1, 5));
  const Tensor labels = from_values<std::int64_t>({7, 8}, {2});
  EXPECT_THAT(masked_fill(labels, mask, -100).to_vector<std::int64_t>(), ElementsAre(7, -100));
}

void expect_finite_fillings() {
  const Tensor mask = mask_of({0, 1}, {2});
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
    const auto most = static_cast<float>(max_of(dtype));
    const Tensor x = ones({2}, dtype);
    for (const double number : {1e300, 1.0001 * max_of(dtype)}) {
      EXPECT_THAT(masked_fill(x, mask, -number).to_vector<float>(), ElementsAre(1, -most))
          << name_of(dtype);
      EXPECT_THAT(masked_fill(x, mask, number).to_vector<float>(), ElementsAre(1, most))
          << name_of(dtype);
    }
    EXPECT_THAT(masked_fill(x, mask, max_of(dtype)).to_vector<float>(), ElementsAre(1, most));
  }
}

TEST(MaskedFill, AFiniteNumberStaysFinite) {
  expect_finite_fillings();
  disable_kernels({"cpu_simd"});  // the plain loop
  expect_finite_fillings();
  disable_kernels({});
}

// The attention of a completely masked row: the same in all dtypes.
TEST(MaskedFill, ARowMaskedWhollyIsUniform) {
  const Tensor mask = mask_of({1, 1, 1, 1, 0, 1, 1, 1}, {2, 4});
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
    const Tensor scores = full({2, 4}, 8, dtype);
    EXPECT_THAT(softmax(masked_fill(scores, mask, -1e9)).to_vector<float>(),
                ElementsAre(0.25, 0.25, 0.25, 0.25, 1, 0, 0, 0))
        << name_of(dtype);
  }
}

TEST(MaskedFill, NothingFlowsThroughWhatIsFilled) {
  const Tensor x = leaf({1, NAN, 3});
  sum(masked_fill(x, mask_of({0, 1, 0}, {3}), 9) * 2).backward();
  EXPECT_THAT(x.grad().to_vector<float>(), ElementsAre(2, 0, 2));
  const Tensor column = full({2, 1}, 1).set_requires_grad(true);
  sum(masked_fill(column, mask_of({0, 1, 0}, {3}), 9)).backward();
  EXPECT_THAT(column.grad().to_vector<float>(), ElementsAre(2, 2));
}

TEST(Maximum, AtSpecialNumbers) {
  const Tensor a = from_values({1.0F, -INFINITY, NAN, 2.0F, NAN}, {5});
  const Tensor b = from_values({2.0F, -3.0F, 1.0F, NAN, NAN}, {5});
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBf16, DType::kF64}) {
    const Floats larger = maximum(a.astype(dtype), b.astype(dtype)).to_vector<float>();
    const Floats smaller = minimum(a.astype(dtype), b.astype(dtype)).to_vector<float>();
    EXPECT_THAT(Floats(larger.begin(), larger.begin() + 2), ElementsAre(2, -3)) << name_of(dtype);
    EXPECT_THAT(Floats(smaller.begin(), smaller.begin() + 2), ElementsAre(1, -INFINITY));
    for (std::size_t i = 2; i < 5; ++i) {
      EXPECT_TRUE(std::isnan(larger[i]) && std::isnan(smaller[i])) << name_of(dtype) << i;
    }
  }
}

TEST(Maximum, OfIntegersHasASign) {
  const Tensor a = from_values<std::int64_t>({-5, 3, std::int64_t{1} << 62}, {3});
  const Tensor b = from_values<std::int64_t>({2, -7, -1}, {3});
  EXPECT_THAT(maximum(a, b).to_vector<std::int64_t>(), ElementsAre(2, 3, std::int64_t{1} << 62));
  EXPECT_THAT(minimum(a, b).to_vector<std::int64_t>(), ElementsAre(-5, -7, -1));
}

// As in PyTorch: half to each where they are equal, and all of it to both where one is NaN.
TEST(Maximum, GradientGoesToTheOneThatIsGiven) {
  const Floats left{1, 2, 3, NAN};
  const Floats right{2, 2, 1, 1};
  for (const bool is_maximum : {true, false}) {
    const Tensor a = leaf(left);
    const Tensor b = leaf(right);
    sum((is_maximum ? maximum : minimum)(a, b) * 4).backward();
    const Tensor& to_larger = is_maximum ? a.grad() : b.grad();
    const Tensor& to_smaller = is_maximum ? b.grad() : a.grad();
    EXPECT_THAT(to_larger.to_vector<float>(), ElementsAre(0, 2, 4, 4));
    EXPECT_THAT(to_smaller.to_vector<float>(), ElementsAre(4, 2, 0, 4));
  }
}

TEST(Maximum, GradientOfABroadcastOperandIsSummed) {
  const Tensor a = leaf({1, 5, 3});
  const Tensor b = leaf({3});
  sum(maximum(a, b)).backward();
  EXPECT_THAT(a.grad().to_vector<float>(), ElementsAre(0, 1, 0.5F));
  EXPECT_THAT(b.grad().to_vector<float>(), ElementsAre(1.5F));
}

// max(x, x^2)^2 is x^4 for x > 1 and x^2 in (0, 1).
TEST(Maximum, SecondDerivative) {
  const Tensor x = leaf({2, 0.5F});
  const Tensor y = maximum(x, x * x);
  const Tensor total = sum(y * y);
  const Tensor first = grad({&total, 1}, {&x, 1}, {}, {.create_graph = true})[0];
  EXPECT_THAT(first.to_vector<float>(), ElementsAre(32, 1));
  const Tensor again = sum(first);
  EXPECT_THAT(grad({&again, 1}, {&x, 1})[0].to_vector<float>(), ElementsAre(48, 2));
}

}  // namespace
}  // namespace mezzo
