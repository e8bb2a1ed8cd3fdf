#include "mezzo/train/schedule.h"

#include <gtest/gtest.h>

namespace mezzo::train {
namespace {

TEST(Schedule, NamesParseBack) {
  for (const char* name : {"constant", "steps", "poly", "linear", "cosine"}) {
    const auto kind = parse_schedule(name);
    ASSERT_TRUE(kind.has_value()) << name;
    EXPECT_STREQ(name_of(*kind), name);
  }
  EXPECT_FALSE(parse_schedule("step").has_value());
}

TEST(Schedule, WarmUpEndsAtTheFullRate) {
  const Schedule schedule{
      .kind = ScheduleKind::kCosine, .lr = 0.4, .total_steps = 100, .warmup_steps = 4};
  EXPECT_DOUBLE_EQ(schedule.at(0), 0.1);
  EXPECT_DOUBLE_EQ(schedule.at(3), 0.4);
  EXPECT_DOUBLE_EQ(schedule.at(4), 0.4);
}

TEST(Schedule, CosineIsHalfwayInTheMiddleAndNearlyZeroAtTheEnd) {
  const Schedule schedule{.kind = ScheduleKind::kCosine, .lr = 1, .total_steps = 1000};
  EXPECT_DOUBLE_EQ(schedule.at(0), 1);
  EXPECT_NEAR(schedule.at(500), 0.5, 1e-12);
  EXPECT_LT(schedule.at(999), 1e-5);
  EXPECT_EQ(schedule.at(5000), schedule.at(999));
}

TEST(Schedule, StepsFallTenfoldThreeTimes) {
  const Schedule schedule{.kind = ScheduleKind::kSteps, .lr = 1, .total_steps = 10};
  const double expected[] = {1, 1, 1, 0.1, 0.1, 0.1, 0.01, 0.01, 0.001, 0.001};
  for (int i = 0; i < 10; ++i) EXPECT_DOUBLE_EQ(schedule.at(i), expected[i]) << i;
}

TEST(Schedule, PolyAndLinear) {
  const Schedule poly{.kind = ScheduleKind::kPoly, .lr = 2, .total_steps = 4};
  EXPECT_DOUBLE_EQ(poly.at(2), 0.5);
  const Schedule linear{.kind = ScheduleKind::kLinear, .lr = 2, .end_lr = 1, .total_steps = 4};
  EXPECT_DOUBLE_EQ(linear.at(2), 1.5);
}

TEST(Schedule, WarmUpLongerThanTheRunStillClimbs) {
  const Schedule schedule{.lr = 1, .total_steps = 2, .warmup_steps = 10};
  EXPECT_DOUBLE_EQ(schedule.at(1), 0.2);
}

}  // namespace
}  // namespace mezzo::train
