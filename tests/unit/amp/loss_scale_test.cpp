// Tests the loss scaler as a state machine: every test is a table of steps.
#include "mezzo/amp/loss_scale.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/core/error.h"
#include "tests/unit/amp/trajectory.h"

namespace mezzo::amp {
namespace {

TEST(LossScale, GrowsAfterAnIntervalAndShrinksAtAnOverflow) {
  EXPECT_EQ(trajectory({.init_scale = 8, .growth_interval = 3}, "FFFOFFFFFFFOOFFF"),
            // init 8; the third finite step doubles, each overflow halves and restarts the count
            (Scales{8, 8, 16, 8, 8, 8, 16, 16, 16, 32, 32, 16, 8, 8, 8, 16}));
}

TEST(LossScale, HysteresisWithItsRefillRules) {
  const auto after = [](std::int64_t hysteresis, Refill refill) {
    return trajectory(
        {.init_scale = 64, .growth_interval = 100, .hysteresis = hysteresis, .refill = refill},
        "OFOFOOFO");
  };
  EXPECT_EQ(after(1, Refill::kGrowth), (Scales{32, 32, 16, 16, 8, 4, 4, 2}));
  EXPECT_EQ(after(2, Refill::kGrowth), (Scales{64, 64, 32, 32, 16, 8, 8, 4}));
  EXPECT_EQ(after(2, Refill::kGoodStep), (Scales{64, 64, 64, 64, 64, 32, 32, 32}));
  EXPECT_EQ(after(2, Refill::kGoodStepAndBackoff), (Scales{64, 64, 64, 64, 64, 32, 32, 32}));
}

TEST(LossScale, RefillAfterBackoffMattersForLongOverflows) {
  const auto after = [](Refill refill) {
    return trajectory({.init_scale = 64, .hysteresis = 2, .refill = refill}, "OOOO");
  };
  EXPECT_EQ(after(Refill::kGoodStep), (Scales{64, 32, 16, 8}));
  EXPECT_EQ(after(Refill::kGoodStepAndBackoff), (Scales{64, 32, 32, 16}));
}

TEST(LossScale, HysteresisIsRefilledByGrowth) {
  EXPECT_EQ(trajectory({.init_scale = 64, .growth_interval = 2, .hysteresis = 2}, "OOFFOO"),
            (Scales{64, 32, 32, 64, 64, 32}));
}

TEST(LossScale, HoldsAtTheFloor) {
  EXPECT_EQ(trajectory({.init_scale = 4, .min_scale = 2}, "OOO"), (Scales{2, 2, 2}));
}

// A scale that begins at its floor is not fixed: it grows, and shrinks again.
TEST(LossScale, LeavesTheFloorAndComesBack) {
  EXPECT_EQ(trajectory({.init_scale = 4, .growth_interval = 2, .min_scale = 4}, "FFOO"),
            (Scales{4, 8, 4, 4}));
}

TEST(LossScale, ThrowsAtTheFloorIfAskedAndKeepsTheScale) {
  LossScaleState state({.init_scale = 2, .min_scale = 1, .at_floor = AtFloor::kThrow});
  state.update(true);
  EXPECT_EQ(state.scale(), 1);
  EXPECT_THROW(state.update(true), Error);
  EXPECT_EQ(state.scale(), 1);
}

TEST(LossScale, HoldsOrClampsAtTheCeiling) {
  LossScaleOptions options{.init_scale = 8, .growth_interval = 1, .max_scale = 20};
  EXPECT_EQ(trajectory(options, "FFF"), (Scales{16, 16, 16}));
  options.at_ceiling = AtCeiling::kClamp;
  EXPECT_EQ(trajectory(options, "FFF"), (Scales{16, 20, 20}));
  options = {.init_scale = 8, .growth_interval = 1, .max_scale = 32};
  EXPECT_EQ(trajectory(options, "FFF"), (Scales{16, 32, 32})) << "the ceiling itself is allowed";
}

TEST(LossScale, NeverGrowsPastF32) {
  EXPECT_EQ(trajectory({.init_scale = 0x1p127, .growth_interval = 1}, "FF"),
            (Scales{0x1p127, 0x1p127}));
}

TEST(LossScale, IntervalOfZeroNeverGrows) {
  EXPECT_EQ(trajectory({.init_scale = 8, .growth_interval = 0}, "FFF"), (Scales{8, 8, 8}));
}

TEST(LossScale, ContinuesFromASavedStateInMidInterval) {
  const LossScaleOptions options{.init_scale = 64, .growth_interval = 3, .hysteresis = 2};
  const std::string steps = "OFFFOOFFFOFF";
  const Scales whole = trajectory(options, steps);
  for (std::size_t cut = 0; cut <= steps.size(); ++cut) {
    LossScaleState first(options);
    Scales scales = trajectory(first, steps.substr(0, cut));
    LossScaleState second(options);
    second.restore(first.scale(), first.growth_tracker(), first.hysteresis_left());
    for (const double scale : trajectory(second, steps.substr(cut))) scales.push_back(scale);
    EXPECT_EQ(scales, whole) << "saved after step " << cut;
  }
}

TEST(LossScale, SettingTheScaleLeavesTheCountAlone) {
  LossScaleState state({.init_scale = 8, .growth_interval = 2});
  state.update(false);
  state.set_scale(32);
  EXPECT_EQ(state.growth_tracker(), 1);
  state.update(false);
  EXPECT_EQ(state.scale(), 64);
}

TEST(LossScale, AFixedOneStaysWhereItWasSet) {
  LossScaleState state(fixed_loss_scale(64));
  EXPECT_EQ(trajectory(state, "FOO"), (Scales{64, 64, 64}));
  state.set_scale(1024);
  EXPECT_EQ(trajectory(state, "FOFO"), (Scales{1024, 1024, 1024, 1024}));
  state.restore(16, 0, 1);
  EXPECT_EQ(trajectory(state, "OF"), (Scales{16, 16}));
}

// A scale that begins at its floor and does not grow by itself is still not fixed.
TEST(LossScale, OneThatWasLoadedAboveItsFloorShrinks) {
  LossScaleState state({.init_scale = 1, .growth_interval = 0});
  state.restore(64, 0, 1);
  EXPECT_EQ(trajectory(state, "OF"), (Scales{32, 32}));
}

TEST(LossScale, RefusesOptionsThatMakeNoSense) {
  const auto message = [](const LossScaleOptions& options) -> std::string {
    try {
      const LossScaleState state(options);
    } catch (const ArgumentError& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_THAT(message({.init_scale = 0}), testing::HasSubstr("init_scale must be positive"));
  EXPECT_THAT(message({.growth_factor = 1}),
              testing::HasSubstr("growth_factor must be above 1 and finite: 1"));
  EXPECT_THAT(message({.backoff_factor = 1}), testing::HasSubstr("backoff_factor"));
  EXPECT_THAT(message({.growth_interval = -1}), testing::HasSubstr("growth_interval"));
  EXPECT_THAT(message({.init_scale = 2, .min_scale = 4}), testing::HasSubstr("min_scale 4"));
  EXPECT_THAT(message({.init_scale = 2, .max_scale = 1}), testing::HasSubstr("max_scale 1"));
  EXPECT_THAT(message({.hysteresis = 0}), testing::HasSubstr("hysteresis"));
}

}  // namespace
}  // namespace mezzo::amp
