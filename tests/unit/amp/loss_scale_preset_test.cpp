// Tests the state machine with every framework's defaults, against trajectories derived from its
// rules.
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/amp/loss_scale.h"
#include "tests/unit/amp/trajectory.h"

namespace mezzo::amp {
namespace {

std::vector<std::string> preset_names() {
  const auto names = loss_scale_preset_names();
  return {names.begin(), names.end()};
}

class Preset : public testing::TestWithParam<std::string> {
 protected:
  LossScaleOptions options() const { return loss_scale_preset(GetParam()); }
  LossScaleOptions options(double init, std::int64_t interval) const {
    LossScaleOptions result = options();
    result.init_scale = init;
    result.growth_interval = interval;
    return result;
  }
};

INSTANTIATE_TEST_SUITE_P(LossScale, Preset, testing::ValuesIn(preset_names()),
                         [](const auto& test) { return test.param; });

TEST_P(Preset, StartsAtItsDefault) {
  EXPECT_NO_THROW(LossScaleState{options()});
  EXPECT_EQ(options().growth_factor, 2);
  EXPECT_EQ(options().backoff_factor, 0.5);
}

TEST_P(Preset, FollowsTheCommonTrajectoryWithoutHysteresis) {
  LossScaleOptions o = options(8, 3);
  o.hysteresis = 1;
  EXPECT_EQ(trajectory(o, "FFFOFFFFFFFOOFFF"),
            (Scales{8, 8, 16, 8, 8, 8, 16, 16, 16, 32, 32, 16, 8, 8, 8, 16}));
}

TEST_P(Preset, FollowsItsHysteresis) {
  const bool has_hysteresis = GetParam() == "deepspeed" || GetParam() == "megatron";
  EXPECT_EQ(trajectory(options(64, 100), "OFOFOOFO"), has_hysteresis
                                                          ? (Scales{64, 64, 32, 32, 16, 8, 8, 4})
                                                          : (Scales{32, 32, 16, 16, 8, 4, 4, 2}));
}

// Compares with the number of growths and reductions, counted by hand: without floor, ceiling and
// hysteresis the scale is init * growth^a * backoff^b.
TEST_P(Preset, FollowsTheClosedForm) {
  LossScaleOptions o = options(1024, 4);
  o.hysteresis = 1;
  o.max_scale = kNoCeiling;
  o.min_scale = kNoFloor;
  LossScaleState state(o);
  std::mt19937 random(7);
  int good = 0;
  int exponent = 10;
  for (int step = 0; step < 500; ++step) {
    const bool overflow = random() % 5 == 0;
    state.update(overflow);
    good = overflow ? 0 : good + 1;
    if (overflow) --exponent;
    if (good == 4) ++exponent, good = 0;
    ASSERT_EQ(state.scale(), std::ldexp(1.0, exponent)) << step;
  }
}

TEST_P(Preset, ContinuesFromASavedStateInMidInterval) {
  const std::string steps = "FFOFFFOOFFFFOFF";
  const LossScaleOptions o = options(64, 3);
  const Scales whole = trajectory(o, steps);
  for (std::size_t cut = 0; cut <= steps.size(); ++cut) {
    LossScaleState first(o);
    Scales scales = trajectory(first, steps.substr(0, cut));
    LossScaleState second(o);
    second.restore(first.scale(), first.growth_tracker(), first.hysteresis_left());
    const Scales rest = trajectory(second, steps.substr(cut));
    scales.insert(scales.end(), rest.begin(), rest.end());
    EXPECT_EQ(scales, whole) << "saved after step " << cut;
  }
}

TEST_P(Preset, StaysInsideF32) {
  LossScaleOptions o = options();
  o.growth_interval = 1;
  o.hysteresis = 1;
  o.at_floor = AtFloor::kHold;
  LossScaleState state(o);
  for (int i = 0; i < 400; ++i) state.update(false);
  EXPECT_TRUE(std::isfinite(static_cast<float>(state.scale())));
  for (int i = 0; i < 800; ++i) state.update(true);
  EXPECT_GT(static_cast<float>(state.scale()), 0);
  EXPECT_TRUE(std::isfinite(static_cast<float>(1 / state.scale())));
}

struct PresetRow {
  const char* name;
  double init;
  std::int64_t interval;
  double floor;    // the lowest scale after any number of overflows
  double ceiling;  // the highest scale after any number of steps without one
  std::int64_t hysteresis;
};

// Beyond 2^127 a scale stays (the default) or becomes the largest f32 (OneFlow).
constexpr PresetRow kPresetRows[] = {
    {"mindspore", 0x1p24, 2000, 1, 0x1p127, 1},  {"megengine", 0x1p4, 2000, kNoFloor, 0x1p127, 1},
    {"oneflow", 0x1p16, 2000, 1, kNoCeiling, 1}, {"pytorch", 0x1p16, 2000, kNoFloor, 0x1p127, 1},
    {"apex", 0x1p16, 2000, kNoFloor, 0x1p24, 1}, {"tensorflow", 0x1p15, 2000, 1, 0x1p127, 1},
    {"deepspeed", 0x1p16, 1000, 1, 0x1p127, 2},  {"megatron", 0x1p32, 1000, 1, 0x1p127, 2},
};

double after(const LossScaleOptions& options, int steps, bool overflow) {
  LossScaleState state(options);
  for (int i = 0; i < steps; ++i) state.update(overflow);
  return state.scale();
}

TEST(LossScalePresets, AreTheTable) {
  std::vector<std::string> names;
  for (const PresetRow& row : kPresetRows) {
    names.emplace_back(row.name);
    LossScaleOptions o = loss_scale_preset(row.name);
    EXPECT_EQ(o.init_scale, row.init) << row.name;
    EXPECT_EQ(o.growth_interval, row.interval) << row.name;
    EXPECT_EQ(o.hysteresis, row.hysteresis) << row.name;
    EXPECT_EQ(o.at_floor == AtFloor::kThrow, names.back() == "deepspeed") << row.name;
    o.at_floor = AtFloor::kHold;
    EXPECT_EQ(after(o, 400, true), row.floor) << row.name;
    o.growth_interval = 1;
    EXPECT_EQ(after(o, 400, false), row.ceiling) << row.name;
  }
  EXPECT_EQ(preset_names(), names);
}

TEST(LossScalePresets, DeepSpeedThrowsAtTheFloor) {
  LossScaleOptions o = loss_scale_preset("deepspeed");
  o.init_scale = 4;
  LossScaleState state(o);
  EXPECT_EQ(trajectory(state, "OOO"), (Scales{4, 2, 1}));
  EXPECT_THROW(state.update(true), Error);
  EXPECT_EQ(state.scale(), 1);
}

TEST(LossScalePresets, AScaleBetweenFloorsReachesTheFloorBeforeItThrows) {
  LossScaleState state({.init_scale = 1.5, .at_floor = AtFloor::kThrow});
  EXPECT_EQ(trajectory(state, "O"), (Scales{1}));
  EXPECT_THROW(state.update(true), Error);
}

TEST(LossScalePresets, DefaultsArePyTorchsWithAFloor) {
  const LossScaleOptions own;
  const LossScaleOptions torch = loss_scale_preset("pytorch");
  EXPECT_EQ(own.init_scale, torch.init_scale);
  EXPECT_EQ(own.growth_interval, torch.growth_interval);
  EXPECT_EQ(own.min_scale, 1);
  EXPECT_LT(torch.min_scale, 1e-37);
}

TEST(LossScalePresets, AnUnknownNameListsThoseThatExist) {
  try {
    loss_scale_preset("caffe");
    FAIL();
  } catch (const ArgumentError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("`caffe`"));
    for (const std::string& name : preset_names()) {
      EXPECT_THAT(error.what(), testing::HasSubstr(name));
    }
  }
}

TEST(LossScalePresets, AScaleSetBelowTheFloorIsNotRaisedByAnOverflow) {
  LossScaleState state(LossScaleOptions{});
  state.set_scale(0.5);
  EXPECT_EQ(trajectory(state, "OO"), (Scales{0.5, 0.5}));
}

TEST(LossScalePresets, AScaleIsAlwaysAnF32Number) {
  LossScaleState state({.init_scale = 1000.1, .growth_factor = 1.1, .growth_interval = 1});
  for (const double scale : trajectory(state, "FFFOFFF")) {
    EXPECT_EQ(scale, static_cast<double>(static_cast<float>(scale)));
  }
}

TEST(LossScalePresets, WhatDoesNotFitF32IsRefused) {
  EXPECT_THROW(LossScaleState({.max_scale = 1e39}), ArgumentError);
  EXPECT_THROW(LossScaleState({.init_scale = 1e39, .max_scale = 1e40}), ArgumentError);
  EXPECT_THROW(LossScaleState({.init_scale = 1e-39, .min_scale = 0}), ArgumentError);
  LossScaleState state(LossScaleOptions{});
  EXPECT_THROW(state.set_scale(1e39), ArgumentError);
  EXPECT_THROW(state.set_scale(std::nan("")), ArgumentError);
  EXPECT_THROW(state.set_growth_factor(1), ArgumentError);
  EXPECT_THROW(state.set_backoff_factor(0), ArgumentError);
  EXPECT_THROW(state.set_growth_interval(-1), ArgumentError);
  EXPECT_EQ(state.scale(), 65536);
}

}  // namespace
}  // namespace mezzo::amp
