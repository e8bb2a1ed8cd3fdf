// Tests the difference of two tensors.
#include "mezzo/numbers/tensor_difference.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "mezzo/core/random.h"
#include "mezzo/ops/cast.h"
#include "tests/unit/threads.h"

namespace mezzo::numbers {
namespace {

TEST(TensorDifference, SumsTheDistance) {
  const Tensor a = from_values<float>({3, 4, 0}, {3});
  const Tensor b = from_values<float>({3, 4, 1}, {3});
  const TensorDifference found = difference_of(a, b);
  EXPECT_EQ(found.differing, 1);
  EXPECT_EQ(found.first_at, 2);
  EXPECT_EQ(found.largest_at, 2);
  EXPECT_DOUBLE_EQ(found.norm, 5);
  EXPECT_DOUBLE_EQ(found.relative(), 0.2);
  EXPECT_DOUBLE_EQ(found.largest_to_largest(), 0.25);
  EXPECT_DOUBLE_EQ(found.largest_to_rms(), 1 / (5 / std::sqrt(3)));
}

TEST(TensorDifference, EqualTensorsAreEqualWhateverTheirLayout) {
  Generator generator(1);
  const Tensor a = randn({2, 3, 5, 4}, generator);
  EXPECT_TRUE(difference_of(a, to_format(a, Format::kChannelsLast)).is_equal());
  EXPECT_TRUE(difference_of(to_format(a, Format::kChannelsLast), a).is_equal());
  for (const DType dtype : kAllDTypes) {
    EXPECT_TRUE(difference_of(cast(a, dtype), cast(a, dtype)).is_equal()) << name_of(dtype);
  }
}

TEST(TensorDifference, PlacesAreInRowMajorOrder) {
  const Tensor a = zeros({1, 2, 2, 3}, DType::kF32, Format::kChannelsLast);
  const Tensor b = zeros({1, 2, 2, 3}, DType::kF32);
  b.mutable_data<float>()[9] = 2;
  const TensorDifference found = difference_of(a, b);
  EXPECT_EQ(found.largest_at, 9);
  EXPECT_EQ(index_of(found.largest_at, a.shape()), Shape({0, 1, 1, 0}));
  EXPECT_TRUE(std::isinf(found.relative()));  // a difference from zeros
}

TEST(TensorDifference, AcrossDtypesValuesCount) {
  const Tensor a = from_values<float>({1, 1.00390625F, -2}, {3});
  const TensorDifference found = difference_of(a, cast(a, DType::kBf16));
  EXPECT_EQ(found.differing, 1);
  EXPECT_EQ(found.first_at, 1);
  EXPECT_DOUBLE_EQ(found.largest, 0x1p-8);
}

TEST(TensorDifference, EightBitsAreReadAsTheirNumbers) {
  const Tensor a = from_values<float>({1, 1.0625F, -2, 0x1p-9F, 448}, {5});
  const Tensor b = cast(a, DType::kE4m3);
  for (const TensorDifference& found :
       {difference_of(a, b), difference_of(cast(a, DType::kF64), b)}) {
    EXPECT_EQ(found.differing, 1);
    EXPECT_EQ(found.first_at, 1);
    EXPECT_DOUBLE_EQ(found.largest, 0x1p-4) << "a tie with 1";
  }
  EXPECT_DOUBLE_EQ(difference_of(b, cast(a, DType::kE5m2)).largest, 0);
}

TEST(TensorDifference, SignsOfZeroAndNanCountAsTheyShould) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const Tensor a = from_values<float>({0, kNan, kInf, 1, kInf}, {5});
  const Tensor b = from_values<float>({-0.0F, kNan, kInf, kNan, -kInf}, {5});
  const TensorDifference found = difference_of(a, b);
  EXPECT_EQ(found.differing, 3);
  EXPECT_EQ(found.not_finite, 2);
  EXPECT_EQ(found.largest_at, 3);
  EXPECT_TRUE(std::isinf(found.relative()));
  EXPECT_EQ(found.distance, 0);
}

TEST(TensorDifference, FactorsAreThoseOfLossScales) {
  const Tensor a = from_values<float>({1, 2}, {2});
  const Tensor b = from_values<float>({8, 16}, {2});
  EXPECT_TRUE(difference_of(a, b, 1, 1.0 / 8).is_equal());
  EXPECT_EQ(difference_of(a, b).differing, 2);
}

TEST(TensorDifference, IsTheSameWithAnyNumberOfThreads) {
  Generator generator(1);
  const Tensor a = randn({100'003}, generator);
  const Tensor b = cast(a, DType::kBf16);
  const test::Threads one(1);
  const TensorDifference with_one = difference_of(a, b);
  const test::Threads three(3);
  const TensorDifference with_three = difference_of(a, b);
  EXPECT_EQ(with_one.distance, with_three.distance);
  EXPECT_EQ(with_one.norm, with_three.norm);
  EXPECT_EQ(with_one.first_at, with_three.first_at);
}

TEST(TensorDifference, EmptyTensorsAreEqual) {
  EXPECT_TRUE(difference_of(empty({0, 3}), empty({0, 3})).is_equal());
}

TEST(TensorDifference, OtherShapesAreAnError) {
  EXPECT_THROW(difference_of(empty({2}), empty({3})), ArgumentError);
}

}  // namespace
}  // namespace mezzo::numbers
