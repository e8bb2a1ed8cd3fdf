#include "mezzo/train/configuration.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>

#include "mezzo/core/error.h"
#include "mezzo/train/run.h"
#include "tests/unit/data/temp_folder.h"

namespace mezzo::train {
namespace {

using ::testing::HasSubstr;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();

TEST(CheckOptions, TheUsualOnesPass) { EXPECT_NO_THROW(check_options({})); }

// Each of these once went through, to give rates that are no numbers, or counts that overflow.
TEST(CheckOptions, WhatIsNoNumberInF32IsRefused) {
  struct Field {
    double RunOptions::*value;
    const char* name;
  };
  for (const Field& field :
       {Field{&RunOptions::lr, "[--lr] "}, Field{&RunOptions::lr_init, "--lr-init"},
        Field{&RunOptions::lr_end, "--lr-end"}, Field{&RunOptions::weight_decay, "--weight-decay"},
        Field{&RunOptions::warmup_epochs, "--warmup-epochs"},
        Field{&RunOptions::label_smoothing, "--label-smoothing"}}) {
    for (const double value : {kInfinity, 1e39, std::nan(""), -1.0}) {
      RunOptions options;
      options.*field.value = value;
      EXPECT_THAT(message_of<ArgumentError>([&] { check_options(options); }), HasSubstr(field.name))
          << value;
    }
  }
}

TEST(CheckOptions, SoManyEpochsThatStepsCannotBeCountedAreRefused) {
  EXPECT_THAT(message_of<ArgumentError>([] { check_options({.epochs = kLargest}); }),
              HasSubstr("[--epochs] must be at least 1 and at most 1000000000"));
}

// Whatever changes the bits, whether it is given now or was given before.
TEST(CheckConfiguration, OtherPrecisionIsRefusedBothWays) {
  const auto resumes = [](const RunOptions& before, const RunOptions& now) {
    io::Checkpoint checkpoint;
    add_configuration(checkpoint, configuration_of(before));
    check_configuration(checkpoint, configuration_of(now));
  };
  const RunOptions plain{.policy = {.level = amp::Level::kAuto}};
  RunOptions kept = plain;
  kept.precision.keep_float32 = {"fc"};
  RunOptions lowered = plain;
  lowered.precision.lower = {"fc"};
  RunOptions norms = plain;
  norms.precision.keep_batchnorm_fp32 = false;
  RunOptions painted = plain;
  painted.graph = true;
  RunOptions scaled = plain;
  scaled.loss_scale = {.kind = LossScaling::Kind::kStatic, .scale = 1024};
  EXPECT_NO_THROW(resumes(plain, plain));
  for (const RunOptions* other : {&kept, &lowered, &norms, &painted, &scaled}) {
    EXPECT_THROW(resumes(plain, *other), ArgumentError);
    EXPECT_THROW(resumes(*other, plain), ArgumentError);
    EXPECT_NO_THROW(resumes(*other, *other));
  }
  EXPECT_THAT(message_of<ArgumentError>([&] { resumes(scaled, plain); }),
              HasSubstr("begun with --loss-scale 1024, not (not given)"));
}

TEST(ScheduleOf, TheLargestRatesGiveFiniteOnes) {
  constexpr auto kLargestRate = double{std::numeric_limits<float>::max()};
  for (const ScheduleKind kind : {ScheduleKind::kPoly, ScheduleKind::kLinear, ScheduleKind::kCosine,
                                  ScheduleKind::kHalfCosine, ScheduleKind::kExponential}) {
    RunOptions options{
        .lr = kLargestRate, .schedule = kind, .lr_end = kLargestRate, .warmup_epochs = 1e9};
    for (const double epochs : {0.0, 1.0, 1e9}) {
      options.warmup_epochs = epochs;
      check_options(options);
      for (const double lr : schedule_of(options, 5, 20).values()) EXPECT_TRUE(std::isfinite(lr));
    }
  }
}

}  // namespace
}  // namespace mezzo::train
