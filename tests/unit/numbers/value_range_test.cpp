// Tests the ranges of tensors and their texts.
#include "mezzo/numbers/value_range.h"

#include <limits>

#include <gtest/gtest.h>

#include "mezzo/ops/shape_ops.h"

namespace mezzo::numbers {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(ValueRange, CountsWhatIsNotFiniteAndRangesOverTheRest) {
  const Tensor x = from_values<float>({-3, 0, 0.25, kInf, -kInf, kNan}, {2, 3});
  const ValueRange range = range_of(x);
  EXPECT_EQ(range.count, 6);
  EXPECT_EQ(range.infinities, 2);
  EXPECT_EQ(range.nans, 1);
  EXPECT_EQ(range.zeros, 1);
  EXPECT_EQ(range.low, -3);
  EXPECT_EQ(range.high, 0.25);
  EXPECT_EQ(range.least_magnitude, 0.25);
  EXPECT_EQ(range.largest_magnitude(), 3);
  EXPECT_FALSE(range.all_finite());
  EXPECT_EQ(range.text(), "between -3 and 0.25");
  EXPECT_EQ(range.text_of_bad(), "2 of 6 are infinite and 1 is NaN");
  EXPECT_EQ(range_of(full({3}, -1.25)).text(), "all -1.25");
}

TEST(ValueRange, IsExactInEveryDtypeAndLayout) {
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16, DType::kF64}) {
    const Tensor x = from_values<float>({1, -2, 4, -8, 16, -32}, {2, 3}).astype(dtype);
    const ValueRange range = range_of(transpose(x, 0, 1));
    EXPECT_EQ(range.low, -32) << name_of(dtype);
    EXPECT_EQ(range.high, 16) << name_of(dtype);
    EXPECT_TRUE(range.all_finite());
    EXPECT_EQ(range.text_of_bad(), "");
  }
}

TEST(ValueRange, OfManyElementsIsThatOfAll) {
  const Tensor x = zeros({1 << 18});
  x.mutable_data<float>()[200'000] = 7;
  x.mutable_data<float>()[3] = -kInf;
  const ValueRange range = range_of(x);
  EXPECT_EQ(range.high, 7);
  EXPECT_EQ(range.infinities, 1);
  EXPECT_EQ(range.zeros, (1 << 18) - 2);
  EXPECT_EQ(range.text_of_bad(), "1 of 262144 is infinite");
}

TEST(ValueRange, NothingIsFiniteAndHasNoRange) {
  EXPECT_EQ(range_of(Tensor()).count, 0);
  EXPECT_TRUE(range_of(arange(3, DType::kI64)).all_finite());
  const ValueRange all_bad = range_of(full({2}, kNan));
  EXPECT_EQ(all_bad.largest_magnitude(), 0);
  EXPECT_EQ(all_bad.text_of_bad(), "2 of 2 are NaN");
}

TEST(ValueRange, NumbersAreShort) {
  EXPECT_EQ(short_text(65504), "65504");
  EXPECT_EQ(short_text(0.012345), "0.0123");
  EXPECT_EQ(short_text(-1e9), "-1e+09");
}

}  // namespace
}  // namespace mezzo::numbers
