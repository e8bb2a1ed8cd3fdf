#include "mezzo/train/schedule.h"

#include <functional>
#include <limits>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/message_of.h"

namespace mezzo::train {
namespace {

// The results of the course's get_lr(lr_init=0.01, lr_end=0.00001, lr_max=0.1) and
// warmup_cosine_annealing_lr(lr=0.1) for 4 epochs of 3 steps. They are rounded to f32 at the end.
constexpr double kF32 = 0x1p-24;

Schedule course(ScheduleKind kind, std::int64_t warmup_steps) {
  return {.kind = kind,
          .lr = 0.1,
          .init_lr = kind == ScheduleKind::kCosine ? 0 : 0.01,
          .end_lr = 0.00001,
          .total_steps = 12,
          .warmup_steps = warmup_steps};
}

void expect_rates(const Schedule& schedule, const std::vector<double>& expected) {
  const std::vector<double> rates = schedule.values();
  ASSERT_EQ(rates.size(), expected.size());
  for (std::size_t i = 0; i < rates.size(); ++i) {
    EXPECT_NEAR(rates[i], expected[i], expected[i] * kF32) << name_of(schedule.kind) << ' ' << i;
  }
}

TEST(Schedule, StepsAreTheCourses) {
  expect_rates(
      course(ScheduleKind::kSteps, 0),
      {0.100000001, 0.100000001, 0.100000001, 0.100000001, 0.00999999978, 0.00999999978,
       0.00999999978, 0.00999999978, 0.00100000005, 0.00100000005, 9.99999975e-05, 9.99999975e-05});
}

// get_lr(mode="steps") reads neither warmup_epochs nor lr_init.
TEST(Schedule, StepsHaveNoWarmUpAsInTheCourse) {
  for (const std::int64_t warmup : {2, 3, 6, 12, 20}) {
    Schedule schedule = course(ScheduleKind::kSteps, warmup);
    EXPECT_EQ(schedule.values(), course(ScheduleKind::kSteps, 0).values()) << warmup;
    schedule.kind = ScheduleKind::kWarmSteps;
    EXPECT_NE(schedule.values(), course(ScheduleKind::kSteps, 0).values()) << warmup;
  }
}

TEST(Schedule, WarmStepsClimbFirst) {
  const Schedule schedule{
      .kind = ScheduleKind::kWarmSteps, .lr = 1, .total_steps = 10, .warmup_steps = 2};
  EXPECT_EQ(schedule.values(),
            (std::vector<double>{0.5, 1, 1, 0.1, 0.1, 0.1, 0.01, 0.01, 0.001, 0.001}));
}

TEST(Schedule, StepsFallAtTheirTenths) {
  const Schedule schedule{.kind = ScheduleKind::kSteps, .lr = 1, .total_steps = 10};
  EXPECT_EQ(schedule.values(),
            (std::vector<double>{1, 1, 1, 0.1, 0.1, 0.1, 0.01, 0.01, 0.001, 0.001}));
}

TEST(Schedule, PolyIsTheCourses) {
  expect_rates(
      course(ScheduleKind::kPoly, 6),
      {0.00999999978, 0.0250000004, 0.0399999991, 0.0549999997, 0.0700000003, 0.0850000009,
       0.100000001, 0.0694444478, 0.0444444455, 0.0250000004, 0.0111111114, 0.00277777785});
  expect_rates(
      course(ScheduleKind::kPoly, 0),
      {0.100000001, 0.0840277746, 0.0694444478, 0.0562499985, 0.0444444455, 0.0340277776,
       0.0250000004, 0.0173611119, 0.0111111114, 0.00625000009, 0.00277777785, 0.000694444461});
}

TEST(Schedule, LinearIsTheCourses) {
  expect_rates(course(ScheduleKind::kLinear, 6),
               {0.00999999978, 0.0250000004, 0.0399999991, 0.0549999997, 0.0700000003, 0.0850000009,
                0.100000001, 0.0833349973, 0.0666700006, 0.0500050001, 0.0333399996, 0.0166749991});
}

TEST(Schedule, CosineIsTheCourses) {
  expect_rates(
      course(ScheduleKind::kCosine, 3),
      {0.0333333351, 0.0666666701, 0.100000001, 0.0776705742, 0.0557985902, 0.036177136,
       0.0204171464, 0.00933638308, 0.00290111266, 0.0002962125, 0.000109132568, 0.000597745471});
  expect_rates(
      course(ScheduleKind::kCosine, 0),
      {0.100001, 0.0902867988, 0.0783886462, 0.0652371645, 0.0517807193, 0.0389036983, 0.0273537077,
       0.0176830664, 0.0102090733, 0.004995747, 0.00185811694, 0.000388316606});
}

TEST(Schedule, NamesParseBack) {
  for (const char* name : {"constant", "steps", "warm-steps", "poly", "linear", "cosine",
                           "half-cosine", "exponential"}) {
    const auto kind = parse_schedule(name);
    ASSERT_TRUE(kind.has_value()) << name;
    EXPECT_STREQ(name_of(*kind), name);
  }
  EXPECT_FALSE(parse_schedule("step").has_value());
  EXPECT_EQ(schedule_names(),
            "constant, steps, warm-steps, poly, linear, cosine, half-cosine, exponential and "
            "plateau");
}

TEST(Schedule, WarmUpEndsAtTheFullRate) {
  const Schedule schedule{
      .kind = ScheduleKind::kHalfCosine, .lr = 0.4, .total_steps = 100, .warmup_steps = 4};
  EXPECT_DOUBLE_EQ(schedule.at(0), 0.1);
  EXPECT_DOUBLE_EQ(schedule.at(3), 0.4);
  EXPECT_DOUBLE_EQ(schedule.at(4), 0.4);
}

TEST(Schedule, HalfCosineIsHalfwayInTheMiddleAndNearlyZeroAtTheEnd) {
  const Schedule schedule{.kind = ScheduleKind::kHalfCosine, .lr = 1, .total_steps = 1000};
  EXPECT_DOUBLE_EQ(schedule.at(0), 1);
  EXPECT_NEAR(schedule.at(500), 0.5, 1e-12);
  EXPECT_LT(schedule.at(999), 1e-5);
  EXPECT_EQ(schedule.at(5000), schedule.at(999));
}

TEST(Schedule, ExponentialFallsOnceAnEpochAfterTheWarmUp) {
  const Schedule schedule{.kind = ScheduleKind::kExponential,
                          .lr = 1,
                          .gamma = 0.5,
                          .steps_per_epoch = 2,
                          .total_steps = 7,
                          .warmup_steps = 2};
  EXPECT_EQ(schedule.values(), (std::vector<double>{0.5, 1, 1, 1, 0.5, 0.5, 0.25}));
}

TEST(Schedule, WarmUpLongerThanTheRunStillClimbs) {
  const Schedule schedule{.lr = 1, .total_steps = 2, .warmup_steps = 10};
  EXPECT_DOUBLE_EQ(schedule.at(1), 0.2);
}

TEST(Schedule, RefusesFieldsThatAreNoSchedule) {
  const Schedule fine{.kind = ScheduleKind::kExponential, .lr = 1, .total_steps = 4};
  const auto expect_refused = [](const Schedule& schedule, const char* text) {
    for (const auto& use : {std::function<void()>([&] { schedule.at(0); }),
                            std::function<void()>([&] { schedule.values(); })}) {
      EXPECT_THAT(message_of<ArgumentError>(use), testing::HasSubstr(text));
    }
  };
  Schedule schedule = fine;
  schedule.total_steps = 0;
  expect_refused(schedule, "[Schedule] total_steps must be at least 1: 0");
  schedule = fine;
  schedule.steps_per_epoch = 0;
  expect_refused(schedule, "[Schedule] steps_per_epoch must be at least 1: 0");
  schedule = fine;
  schedule.warmup_steps = -1;
  expect_refused(schedule, "[Schedule] warmup_steps must not be negative: -1");
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const auto& [field, name] : {std::pair{&Schedule::lr, "lr"},
                                    {&Schedule::init_lr, "init_lr"},
                                    {&Schedule::end_lr, "end_lr"},
                                    {&Schedule::gamma, "gamma"}}) {
    for (const double value : {-0.5, nan, std::numeric_limits<double>::infinity()}) {
      schedule = fine;
      schedule.*field = value;
      expect_refused(
          schedule,
          concat("[Schedule] ", name, " must be finite and not negative: ", value).c_str());
    }
  }
}

TEST(Schedule, RefusesArraysThatNoMemoryHolds) {
  const Schedule schedule{.lr = 1, .total_steps = std::int64_t{1} << 62};
  EXPECT_DOUBLE_EQ(schedule.at(std::int64_t{1} << 40), 1);
  EXPECT_THAT(message_of<ArgumentError>([&] { schedule.values(); }),
              testing::HasSubstr("rates is larger than"));
}

TEST(Schedule, RefusesStepsBeforeTheFirst) {
  const Schedule schedule{.lr = 1, .total_steps = 4};
  EXPECT_EQ(message_of<ArgumentError>([&] { schedule.at(-1); }),
            "[Schedule] there is no rate of step -1. Steps count from 0");
}

}  // namespace
}  // namespace mezzo::train
