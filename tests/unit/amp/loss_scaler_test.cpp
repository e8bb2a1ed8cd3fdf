#include "mezzo/amp/names/loss_scaler.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/amp/autocast.h"
#include "mezzo/amp/grad_scaler.h"
#include "mezzo/amp/names/loss_scale_manager.h"
#include "mezzo/amp/names/oneflow_scalers.h"
#include "tests/unit/message_of.h"
#include "tests/unit/special_values.h"

namespace mezzo::amp {
namespace {

constexpr float kMax = std::numeric_limits<float>::max();

TEST(LossScaler, AStaticOneStays) {
  StaticLossScaler scaler(128);
  EXPECT_FALSE(scaler.adjust(true));
  EXPECT_FALSE(scaler.adjust(false));
  EXPECT_EQ(scaler.scale_value(), 128);
  EXPECT_THROW(StaticLossScaler(0.5), ArgumentError);
  EXPECT_THROW(StaticLossScaler{kInf}, ArgumentError);
}

TEST(LossScaler, ADynamicOneFollowsMindSporesTable) {
  DynamicLossScaler scaler(8, 2, 3);
  const std::vector<double> expected = {8, 8, 16, 8, 8, 8, 16, 16, 16, 32, 32, 16, 8, 8, 8, 16};
  const std::string steps = "FFFOFFFFFFFOOFFF";
  for (std::size_t i = 0; i < steps.size(); ++i) {
    EXPECT_TRUE(scaler.adjust(steps[i] == 'F'));
    EXPECT_EQ(scaler.scale_value(), expected[i]) << i;
  }
}

// counter = (counter + 1) % scale_window, and 0 after an overflow.
TEST(LossScaler, CountsAsMindSpore) {
  DynamicLossScaler scaler(8, 2, 3);
  std::vector<std::int64_t> counters;
  for (const char step : std::string("FFFFOF")) {
    scaler.adjust(step == 'F');
    counters.push_back(scaler.counter());
  }
  EXPECT_EQ(counters, (std::vector<std::int64_t>{1, 2, 0, 1, 0, 1}));
}

TEST(LossScaler, TheFloorIsOneAndTheScaleStaysFinite) {
  DynamicLossScaler low(5, 4, 3);
  for (const double expected : {1.25, 1.0, 1.0}) {
    low.adjust(false);
    EXPECT_EQ(low.scale_value(), expected);
  }
  DynamicLossScaler high(0x1p127, 2, 1);
  high.adjust(true);
  EXPECT_EQ(high.scale_value(), 0x1p127);
}

TEST(LossScaler, ContinuesInMidWindow) {
  DynamicLossScaler first(8, 2, 3);
  first.adjust(true);
  first.adjust(true);
  DynamicLossScaler second(1, 2, 3);
  second.restore(first.scale_value(), first.counter());
  second.adjust(true);
  EXPECT_EQ(second.scale_value(), 16);
}

TEST(LossScaler, RefusesWhatMindSporeRefuses) {
  EXPECT_THROW(DynamicLossScaler(0.5, 2, 50), ArgumentError);
  EXPECT_THROW(DynamicLossScaler(1024, 1, 50), ArgumentError);
  EXPECT_THROW(DynamicLossScaler(1024, 2, 0), ArgumentError);
}

TEST(LossScaler, ScalesAndUnscalesInF32) {
  const DynamicLossScaler scaler(0x1p26, 2, 50);
  const Tensor half = from_values({1.0F, 2.0F}, {2}).astype(DType::kF16);
  const Tensor scaled = scaler.scale(half);
  EXPECT_EQ(scaled.dtype(), DType::kF32);
  EXPECT_EQ(scaled.to_vector<float>(), (std::vector<float>{0x1p26F, 0x1p27F}));
  EXPECT_EQ(scaler.unscale(half).to_vector<float>(), (std::vector<float>{0x1p-26F, 0x1p-25F}));
  EXPECT_EQ(scaler.unscale(scaled).to_vector<float>(), half.to_vector<float>());
}

TEST(LossScaler, TakesLists) {
  const StaticLossScaler scaler(4);
  const std::vector<Tensor> tensors = {from_values({1.0F}, {1}), Tensor(),
                                       from_values({3.0F}, {1})};
  const std::vector<Tensor> scaled = scaler.scale(tensors);
  ASSERT_EQ(scaled.size(), 3U);
  EXPECT_EQ(scaled[0].item(), 4);
  EXPECT_FALSE(scaled[1].defined());
  EXPECT_EQ(scaler.unscale(scaled)[2].item(), 3);
}

TEST(AllFinite, IsExactWhereASumOverflows) {
  EXPECT_TRUE(amp::all_finite(std::vector{from_values({kMax, kMax, kMax}, {3})}));
  EXPECT_FALSE(amp::all_finite(std::vector{ones({3}), from_values({0.0F, std::nanf("")}, {2})}));
  EXPECT_FALSE(amp::all_finite(std::vector{from_values({kInf, -kInf}, {2})}));
}

TEST(LossScaleManager, HasMindSporesDefaults) {
  const FixedLossScaleManager fixed;
  EXPECT_EQ(fixed.get_loss_scale(), 128);
  EXPECT_TRUE(fixed.get_drop_overflow_update());
  const DynamicLossScaleManager dynamic;
  EXPECT_EQ(dynamic.get_loss_scale(), 0x1p24);
  EXPECT_TRUE(dynamic.get_drop_overflow_update());
  EXPECT_EQ(dynamic.state()->options().growth_interval, 2000);
  EXPECT_EQ(dynamic.state()->options().min_scale, 1);
}

TEST(LossScaleManager, FixedStaysAndDynamicMoves) {
  FixedLossScaleManager fixed(64, false);
  DynamicLossScaleManager dynamic(64, 4, 2);
  for (const bool overflow : {true, false, false}) {
    fixed.update_loss_scale(overflow);
    dynamic.update_loss_scale(overflow);
  }
  EXPECT_EQ(fixed.get_loss_scale(), 64);
  EXPECT_FALSE(fixed.get_drop_overflow_update());
  EXPECT_EQ(dynamic.get_loss_scale(), 64);  // 16 after the overflow, then times 4
}

TEST(LossScaleManager, CopiesShareTheScale) {
  DynamicLossScaleManager dynamic(64);
  LossScaleManager copy = dynamic;
  copy.update_loss_scale(true);
  EXPECT_EQ(dynamic.get_loss_scale(), 32);
}

TEST(LossScaleManager, WithoutArgumentsDoesNotScale) {
  LossScaleManager none;
  none.update_loss_scale(true);
  EXPECT_FALSE(none.scales());
  EXPECT_EQ(none.get_loss_scale(), 1);
}

TEST(LossScaleManager, RefusesWhatMakesNoSense) {
  EXPECT_THROW(FixedLossScaleManager(0.5), ArgumentError);
  EXPECT_THROW(FixedLossScaleManager(-1), ArgumentError);
  EXPECT_THROW(DynamicLossScaleManager(0), ArgumentError);
  EXPECT_THROW(DynamicLossScaleManager(64, 0), ArgumentError);
  EXPECT_THROW(DynamicLossScaleManager(64, 2, -1), ArgumentError);
}

// Nothing would ever stop the growth.
TEST(LossScaleManager, AScaleThatGrowsNeedsTheCheck) {
  EXPECT_THAT(message_of<ArgumentError>([] { LossScaleManager(LossScaleOptions{}, false); }),
              testing::HasSubstr("growth_interval 2000"));
  GradScaler scaler(LossScaleManager({.init_scale = 4, .growth_interval = 0}, false));
  EXPECT_THROW(scaler.set_growth_interval(1), ArgumentError);
  EXPECT_THROW(scaler.load_state_dict(GradScaler().state_dict()), ArgumentError);
  EXPECT_EQ(scaler.get_growth_interval(), 0);
  EXPECT_EQ(scaler.get_scale(), 4);
  EXPECT_NO_THROW(scaler.load_state_dict(static_grad_scaler(8).state_dict()));
  EXPECT_EQ(scaler.get_scale(), 8);
}

// In 16 bits the scale itself would be infinite, and 2^-25 zero.
TEST(LossScaler, ScalesInF32InARegion) {
  const DynamicLossScaler scaler(0x1p25, 2, 3);
  const Autocast region({.level = Level::kO3, .lower = DType::kF16});
  const Tensor loss = from_values({1 + 0x1p-20F}, {1});
  const Tensor scaled = scaler.scale(loss);
  EXPECT_EQ(scaled.dtype(), DType::kF32);
  EXPECT_EQ(scaled.to_vector<float>()[0], (1 + 0x1p-20F) * 0x1p25F);
  EXPECT_EQ(scaler.unscale(scaled).to_vector<float>(), loss.to_vector<float>());
}

}  // namespace
}  // namespace mezzo::amp
