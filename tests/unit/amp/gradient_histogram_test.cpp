#include "mezzo/amp/gradient_histogram.h"

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/core/error.h"
#include "mezzo/core/tensor.h"
#include "mezzo/ops/update/multi_tensor.h"
#include "tests/unit/special_values.h"

namespace mezzo::amp {
namespace {

GradientHistogram histogram_of(const std::vector<float>& values) {
  const Tensor tensor = from_values(values, {static_cast<std::int64_t>(values.size())});
  return {.name = "w",
          .shape = tensor.shape(),
          .counts = count_exponents({&tensor, 1}).front(),
          .passes = 1};
}

TEST(GradientHistogram, PartsAreOfTheFiniteGradientsOtherThanZero) {
  const GradientHistogram histogram =
      histogram_of({0x1p-30F, -0x1p-26F, 0x1p-20F, 1, 70000, 0, 0, kInf, NAN});
  EXPECT_EQ(histogram.lost_in(DType::kF16), 2.0 / 5);
  EXPECT_EQ(histogram.subnormal_in(DType::kF16), 1.0 / 5);
  EXPECT_EQ(histogram.overflowing_in(DType::kF16), 1.0 / 5);
  EXPECT_EQ(histogram.lost_in(DType::kF16, 4), 1.0 / 5);
  EXPECT_EQ(histogram.lost_in(DType::kF16, 64), 0);
  EXPECT_EQ(histogram.overflowing_in(DType::kF16, 0x1p16), 2.0 / 5);
  EXPECT_EQ(histogram.overflowing_in(DType::kF16, 0.5), 0);
  EXPECT_EQ(histogram.lost_in(DType::kBf16), 0);
  EXPECT_EQ(histogram.overflowing_in(DType::kBf16, 0x1p127), 1.0 / 5);
}

TEST(GradientHistogram, WithoutGradientsNothingIsLost) {
  for (const auto& values : {std::vector<float>{}, {0, 0}, {kInf, NAN}}) {
    const GradientHistogram histogram = histogram_of(values);
    EXPECT_EQ(histogram.lost_in(DType::kF16), 0);
    EXPECT_EQ(histogram.overflowing_in(DType::kF16), 0);
    EXPECT_EQ(histogram.best_scale(DType::kF16), std::nullopt);
    EXPECT_EQ(histogram.quantile(0.5), std::nullopt);
  }
}

// The best scale causes no overflow, and twice that scale does, for gradients on either side of
// every boundary.
TEST(GradientHistogram, TheBestScaleIsTheLargestThatOverflowsNothing) {
  for (const float largest : {1.0F, 1.5F, 0x1p-24F, 65504.0F, std::nextafter(65520.0F, 0.0F),
                              65520.0F, 0x1.ffcp-3F, 0x1.ffep-3F, 0x1.ffffp-3F, 0x1p100F}) {
    const GradientHistogram histogram = histogram_of({largest, 0x1p-60F, 0});
    const double scale = histogram.best_scale(DType::kF16, 0).value();
    EXPECT_EQ(histogram.overflowing_in(DType::kF16, scale), 0) << largest;
    EXPECT_EQ(histogram.overflowing_in(DType::kF16, 2 * scale), 0.5) << largest;
    EXPECT_EQ(histogram.best_scale(DType::kF16, 3), scale / 8) << largest;
  }
  EXPECT_EQ(histogram_of({1}).best_scale(DType::kF16, 0), 0x1p15);
  EXPECT_EQ(histogram_of({0x1p-127F}).best_scale(DType::kF16, 0), 0x1p127) << "more is no f32";
  EXPECT_EQ(histogram_of({1}).best_scale(DType::kBf16, 0), 0x1p127);
  EXPECT_EQ(histogram_of({0x1.ffp0F}).best_scale(DType::kBf16, 0), 0x1p126);
}

TEST(GradientHistogram, OnlyPowersOfTwoMoveWholeBinades) {
  const GradientHistogram histogram = histogram_of({1});
  for (const double scale :
       {0.0, -2.0, 3.0, 1000.0, std::numeric_limits<double>::infinity(), std::nan("")}) {
    EXPECT_THROW(static_cast<void>(histogram.lost_in(DType::kF16, scale)), ArgumentError) << scale;
  }
  EXPECT_THROW(static_cast<void>(histogram.lost_in(DType::kF32)), ArgumentError);
  EXPECT_EQ(floor_power_of_two(1000), 512);
  EXPECT_EQ(floor_power_of_two(1024), 1024);
  EXPECT_EQ(floor_power_of_two(0.3), 0.25);
  EXPECT_THROW(floor_power_of_two(0), ArgumentError);
}

TEST(GradientHistogram, QuantilesAreExponents) {
  const GradientHistogram histogram = histogram_of({0, 0x1p-9F, 0x1p-4F, 0x1.8p-4F, 3});
  EXPECT_EQ(histogram.quantile(0), -9);
  EXPECT_EQ(histogram.quantile(0.24), -9);
  EXPECT_EQ(histogram.quantile(0.25), -4);
  EXPECT_EQ(histogram.quantile(0.5), -4);
  EXPECT_EQ(histogram.quantile(0.75), 1);
  EXPECT_EQ(histogram.quantile(1), 1);
  EXPECT_THROW(static_cast<void>(histogram.quantile(1.5)), ArgumentError);
}

TEST(GradientHistogram, MergingAddsUp) {
  GradientHistogram histogram = histogram_of({1, 2});
  histogram.merge(histogram_of({2, 0}));
  EXPECT_EQ(histogram.counts, histogram_of({1, 2, 2, 0}).counts);
  EXPECT_EQ(histogram.passes, 2);
  const GradientHistogram all[] = {histogram, histogram_of({5})};
  const GradientHistogram sum = sum_of(all, "all");
  EXPECT_EQ(sum.name, "all");
  EXPECT_EQ(sum.counts, histogram_of({1, 2, 2, 0, 5}).counts);
}

}  // namespace
}  // namespace mezzo::amp
