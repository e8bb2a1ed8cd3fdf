#include "mezzo/train/configuration.h"

#include <cmath>
#include <limits>
#include <utility>

#include <gmock/gmock.h>

#include "mezzo/core/error.h"
#include "mezzo/ops/exact_sums.h"
#include "mezzo/train/run.h"
#include "tests/unit/data/temp_folder.h"
#include "tests/unit/distributed/processes.h"

namespace mezzo::train {
namespace {

using ::testing::HasSubstr;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();

TEST(CheckOptions, TheUsualOnesPass) { EXPECT_NO_THROW(check_options({})); }

// Each of these was once accepted, and gave rates that are not finite, or counts that overflow.
TEST(CheckOptions, WhatIsNoNumberInF32IsRefused) {
  struct Field {
    double& (*value)(RunOptions&);
    const char* name;
  };
  const Field fields[] = {
      {[](RunOptions& o) -> double& { return o.optimizer.lr; }, "[--lr] "},
      {[](RunOptions& o) -> double& { return o.optimizer.weight_decay; }, "--weight-decay"},
      {[](RunOptions& o) -> double& { return o.optimizer.eps; }, "--eps"},
      {[](RunOptions& o) -> double& { return o.optimizer.clip.emplace(); }, "--clip"},
      {[](RunOptions& o) -> double& { return o.optimizer.lr_of.emplace_back().lr; }, "--lr-of"},
      {[](RunOptions& o) -> double& { return o.loss.class_weights.emplace_back(); },
       "--class-weights"},
      {[](RunOptions& o) -> double& { return o.schedule.lr_init; }, "--lr-init"},
      {[](RunOptions& o) -> double& { return o.schedule.lr_end; }, "--lr-end"},
      {[](RunOptions& o) -> double& { return o.schedule.warmup_epochs; }, "--warmup-epochs"},
      {[](RunOptions& o) -> double& { return o.loss.label_smoothing; }, "--label-smoothing"}};
  for (const Field& field : fields) {
    for (const double value : {kInfinity, 1e39, std::nan(""), -1.0}) {
      RunOptions options;
      field.value(options) = value;
      EXPECT_THAT(message_of<ArgumentError>([&] { check_options(options); }), HasSubstr(field.name))
          << value;
    }
  }
}

TEST(CheckOptions, SoManyEpochsThatStepsCannotBeCountedAreRefused) {
  EXPECT_THAT(message_of<ArgumentError>([] { check_options({.epochs = kLargest}); }),
              HasSubstr("[--epochs] must be at least 1 and at most 1000000000"));
}

TEST(CheckOptions, EachIsWithinItsBounds) {
  using Change = void (*)(RunOptions&);
  const std::pair<Change, const char*> changes[] = {
      {[](RunOptions& o) { o.optimizer.momentum = -0.5; }, "[--momentum] must be in [0, 1): -0.5"},
      {[](RunOptions& o) { o.optimizer = {.momentum = 0, .nesterov = true}; },
       "[--nesterov] needs a momentum"},
      {[](RunOptions& o) { o.optimizer.beta1 = 1; }, "[--betas] must be in [0, 1): 1"},
      {[](RunOptions& o) { o.optimizer.beta2 = -0.1; }, "[--betas] must be in [0, 1): -0.1"},
      {[](RunOptions& o) { o.optimizer.accumulate = 0; }, "[--accumulate] must be at least 1: 0"},
      {[](RunOptions& o) { o.optimizer.accumulate = 65; }, "[--accumulate] a batch of 64 examples"},
      {[](RunOptions& o) { o.fine_tuning.new_head = true; }, "[--head] new needs --weights"},
      {[](RunOptions& o) {
         o.loss.class_weights = {0, 0};
       },
       "[--class-weights] are all 0"},
      {[](RunOptions& o) { o.schedule.lr_gamma = 0; }, "[--lr-gamma] must be in (0, 1]: 0"},
      {[](RunOptions& o) { o.schedule.lr_gamma = 1.5; }, "[--lr-gamma] must be in (0, 1]: 1.5"},
      {[](RunOptions& o) { o.checkpoints.every = 5; }, "[--checkpoint-dir] is missing"},
      {[](RunOptions& o) { o.checkpoints = {.folder = "x", .every = -1}; }, "[--checkpoint-every]"},
      {[](RunOptions& o) { o.checkpoints = {.folder = "x", .keep = -1}; }, "[--keep]"},
      {[](RunOptions& o) { o.mix.mixup = -1; }, "[--mixup]"},
      {[](RunOptions& o) { o.mix.cutmix = HUGE_VAL; }, "[--cutmix]"},
  };
  for (const auto& [change, message] : changes) {
    RunOptions options;
    change(options);
    EXPECT_THAT(message_of<ArgumentError>([&] { check_options(options); }), HasSubstr(message));
  }
}

// Resumes a run that was begun with other options.
void resumes(const RunOptions& before, const RunOptions& now) {
  io::Checkpoint checkpoint;
  add_configuration(checkpoint, configuration_of(before));
  check_configuration(checkpoint, configuration_of(now));
}

// The checkpoint is from before the option existed.
TEST(CheckConfiguration, WithoutSynchronizedNormsThereWereNone) {
  test::in_processes(2, [](distributed::ProcessGroup& group) {
    io::Checkpoint checkpoint;
    Configuration begun = configuration_of({.processes = &group});
    begun.erase("--sync-batchnorm");
    add_configuration(checkpoint, begun);
    EXPECT_NO_THROW(check_configuration(checkpoint, configuration_of({.processes = &group})));
    const RunOptions now{.sync_batchnorm = true, .processes = &group};
    EXPECT_THAT(
        message_of<ArgumentError>([&] { check_configuration(checkpoint, configuration_of(now)); }),
        HasSubstr("started with --sync-batchnorm off, not on"));
  });
}

// Two go on where one stopped, and the other way round, with as many examples in a step.
TEST(CheckConfiguration, AnotherNumberOfProcessesMayGoOn) {
  test::in_processes(2, [](distributed::ProcessGroup& group) {
    const RunOptions one{.batch_size = 12, .optimizer = {.accumulate = 2}};
    const RunOptions two{
        .batch_size = 6, .sync_batchnorm = true, .reduce_dtype = DType::kBf16, .processes = &group};
    EXPECT_NO_THROW(resumes(one, two));
    EXPECT_NO_THROW(resumes(two, one));
    RunOptions larger = two;
    larger.batch_size = 12;
    EXPECT_THAT(message_of<ArgumentError>([&] { resumes(one, larger); }),
                HasSubstr("started with --batch-size times processes 12, not 24"));
    RunOptions wide = two;
    wide.reduce_dtype = DType::kF32;
    EXPECT_THAT(message_of<ArgumentError>([&] { resumes(two, wide); }),
                HasSubstr("started with --reduce-dtype bf16, not f32"));
  });
}

// Of two processes with six examples each.
TEST(CheckConfiguration, EarlierVersionsKeptTheBatchSizeOfAProcess) {
  io::Checkpoint checkpoint;
  Configuration begun = configuration_of({.batch_size = 12});
  begun.erase("--batch-size times processes");
  begun.erase("processes");
  begun["--batch-size"] = "6";
  add_configuration(checkpoint, begun);
  checkpoint.values["loader"]["processes"] = std::int64_t{2};
  EXPECT_NO_THROW(check_configuration(checkpoint, configuration_of({.batch_size = 12})));
  EXPECT_THAT(message_of<ArgumentError>(
                  [&] { check_configuration(checkpoint, configuration_of({.batch_size = 6})); }),
              HasSubstr("started with --batch-size times processes 12, not 6"));
  checkpoint.values["configuration"]["--batch-size"] = std::string("many");
  EXPECT_THAT(message_of<ArgumentError>(
                  [&] { check_configuration(checkpoint, configuration_of({.batch_size = 12})); }),
              HasSubstr("`many`, which is no number"));
}

// The checkpoint is from before direct sums could be asked for.
TEST(CheckConfiguration, WithoutAWordOnDirectSumsNoneWereAskedFor) {
  io::Checkpoint checkpoint;
  Configuration begun = configuration_of({});
  begun.erase("--exact");
  add_configuration(checkpoint, begun);
  EXPECT_NO_THROW(check_configuration(checkpoint, configuration_of({})));
  const Configuration now = configuration_of({.exact_sums = true});
  EXPECT_THAT(message_of<ArgumentError>([&] { check_configuration(checkpoint, now); }),
              HasSubstr("started with --exact off, not on"));
  const ExactSums everywhere;
  EXPECT_EQ(configuration_of({}), now) << "whoever asked for them";
}

// The checkpoint is from before batches could be mixed.
TEST(CheckConfiguration, WithoutAWordOnMixingNothingWasMixed) {
  io::Checkpoint checkpoint;
  Configuration begun = configuration_of({});
  begun.erase("--mixup");
  begun.erase("--cutmix");
  add_configuration(checkpoint, begun);
  EXPECT_NO_THROW(check_configuration(checkpoint, configuration_of({})));
  const RunOptions now{.mix = {.mixup = 0.5}};
  EXPECT_THAT(
      message_of<ArgumentError>([&] { check_configuration(checkpoint, configuration_of(now)); }),
      HasSubstr("started with --mixup 0, not 0.5"));
}

TEST(CheckConfiguration, OtherOptionsAreRefusedIfTheyChangeTheBits) {
  using Change = void (*)(RunOptions&);
  const Change changes[] = {
      [](RunOptions& o) { o.model = "mlp"; },
      [](RunOptions& o) { o.data = "shapes"; },
      [](RunOptions& o) { o.policy.level = amp::Level::kO3; },
      [](RunOptions& o) { o.policy.lower = DType::kF16; },
      [](RunOptions& o) { ++o.batch_size; },
      [](RunOptions& o) { o.image_size = 30; },
      [](RunOptions& o) { o.tokens = 30; },
      [](RunOptions& o) { o.optimizer.lr = 0.5; },
      [](RunOptions& o) { o.optimizer.momentum = 0.5; },
      [](RunOptions& o) { o.optimizer.weight_decay = 0.5; },
      [](RunOptions& o) { o.optimizer.decay_matrices = true; },
      [](RunOptions& o) { o.optimizer.state_dtype = DType::kBf16; },
      [](RunOptions& o) { o.optimizer.nesterov = true; },
      [](RunOptions& o) { o.optimizer.kind = OptimizerKind::kAdam; },
      [](RunOptions& o) {
        o.optimizer.lr_of = {{"fc3", 0.5}};
      },
      [](RunOptions& o) { o.optimizer.accumulate = 2; },
      [](RunOptions& o) { o.optimizer.clip = 1; },
      [](RunOptions& o) {
        o.loss.class_weights = {1, 2};
      },
      [](RunOptions& o) { o.fine_tuning.freeze = {"conv1"}; },
      [](RunOptions& o) { o.schedule.kind = ScheduleKind::kLinear; },
      [](RunOptions& o) { o.schedule.lr_init = 0.5; },
      [](RunOptions& o) { o.schedule.lr_end = 0.5; },
      [](RunOptions& o) { o.schedule.lr_gamma = 0.5; },
      [](RunOptions& o) { o.schedule.warmup_epochs = 0.5; },
      [](RunOptions& o) { o.schedule.warmup_steps = 0; },
      [](RunOptions& o) { o.loss.label_smoothing = 0.5; },
      [](RunOptions& o) { ++o.seed; },
      [](RunOptions& o) { o.shuffle = !o.shuffle; },
      [](RunOptions& o) { o.augment = !o.augment; },
      [](RunOptions& o) { o.mix.mixup = 0.5; },
      [](RunOptions& o) { o.mix.cutmix = 0.5; },
      [](RunOptions& o) { o.exact_sums = true; },
  };
  const RunOptions begun{.image_size = 28};
  for (const Change& change : changes) {
    RunOptions other = begun;
    change(other);
    EXPECT_THROW(resumes(begun, other), ArgumentError) << &change - changes;
  }
  const Change harmless[] = {
      [](RunOptions& o) { o.workers = 3; },         [](RunOptions& o) { o.epochs = 7; },
      [](RunOptions& o) { o.steps = 7; },           [](RunOptions& o) { o.graph = true; },
      [](RunOptions& o) { o.recompute = {"fc1"}; }, [](RunOptions& o) { o.watch.eval_every = 5; },
  };
  for (const Change& change : harmless) {
    RunOptions other;
    change(other);
    EXPECT_NO_THROW(resumes({}, other)) << &change - harmless;
  }
}

TEST(CheckConfiguration, OneThingMayBeSaidInSeveralWays) {
  const std::pair<const char*, const char*> same[] = {{"mnist:ds", "mnist:./ds"},
                                                      {"mnist:ds/", "mnist:ds"},
                                                      {"images:a/../b//c", "images:b/c/."},
                                                      {"cifar10:.", "cifar10:./"},
                                                      {"mnist:/ds/", "mnist:/ds"}};
  for (const auto& [before, now] : same) {
    EXPECT_NO_THROW(resumes({.data = before}, {.data = now})) << before << " " << now;
  }
  EXPECT_THROW(resumes({.data = "mnist:ds"}, {.data = "mnist:/ds"}), ArgumentError);
  EXPECT_THROW(resumes({.data = "mnist:ds"}, {.data = "images:ds"}), ArgumentError);
  RunOptions options;
  set_image_size(options, {1, 28, 28});
  EXPECT_NO_THROW(resumes(options, {.image_size = 28}));
  EXPECT_NO_THROW(resumes({}, options)) << "as earlier versions have it";
  set_image_size(options = {}, {1, 28, 20});
  EXPECT_EQ(options.image_size, 0);
}

// The settings of one optimizer are not compared with those of another, which does not read them.
TEST(CheckConfiguration, AdamsSettingsAreCompared) {
  const RunOptions begun{.optimizer = usual_options(OptimizerKind::kAdamW)};
  using Change = void (*)(RunOptions&);
  const std::pair<Change, const char*> changes[] = {
      {[](RunOptions& o) { o.optimizer.beta1 = 0.5; }, "with --betas 0.9,0.999, not 0.5,0.999"},
      {[](RunOptions& o) { o.optimizer.beta2 = 0.5; }, "with --betas 0.9,0.999, not 0.9,0.5"},
      {[](RunOptions& o) { o.optimizer.eps = 0.5; }, "with --eps 1e-08, not 0.5"},
      {[](RunOptions& o) { o.optimizer = {.lr = 1e-3, .weight_decay = 0.01}; },
       "with --optimizer adamw, not sgd"},
  };
  for (const auto& [change, message] : changes) {
    RunOptions other = begun;
    change(other);
    EXPECT_THAT(message_of<ArgumentError>([&] { resumes(begun, other); }), HasSubstr(message));
    EXPECT_THROW(resumes(other, begun), ArgumentError);
  }
  RunOptions unread = begun;
  unread.optimizer.momentum = 0.5;
  EXPECT_NO_THROW(resumes(begun, unread));
}

// The checkpoint is from before any of these options existed.
TEST(CheckConfiguration, EarlierVersionsHadPlainSgd) {
  io::Checkpoint checkpoint;
  Configuration begun = configuration_of({});
  for (const char* name :
       {"--optimizer", "--nesterov", "--lr-of", "--accumulate", "--clip", "--class-weights",
        "--freeze", "--tokens", "--decay-matrices", "--warmup-steps"}) {
    EXPECT_EQ(begun.erase(name), 1U) << name;
  }
  add_configuration(checkpoint, begun);
  EXPECT_NO_THROW(check_configuration(checkpoint, configuration_of({})));
  const RunOptions adam{.optimizer = {.kind = OptimizerKind::kAdam}};
  EXPECT_THAT(
      message_of<ArgumentError>([&] { check_configuration(checkpoint, configuration_of(adam)); }),
      HasSubstr("started with --optimizer sgd, not adam"));
  const RunOptions frozen{.fine_tuning = {.freeze = {"conv1"}}};
  EXPECT_THAT(
      message_of<ArgumentError>([&] { check_configuration(checkpoint, configuration_of(frozen)); }),
      HasSubstr("started with --freeze (not given), not conv1."));
}

using Names = std::vector<std::string>;
Names& frozen_parts(RunOptions& options) { return options.fine_tuning.freeze; }
Names& kept_in_f32(RunOptions& options) { return options.precision.keep_float32; }
Names& lowered_parts(RunOptions& options) { return options.precision.lower; }

TEST(CheckConfiguration, TheOrderOfNamesMeansNothing) {
  const std::pair<const char*, Names& (*)(RunOptions&)> fields[] = {
      {"--freeze", frozen_parts}, {"--keep-f32", kept_in_f32}, {"--lower", lowered_parts}};
  for (const auto& [name, names] : fields) {
    RunOptions begun, reversed, other;
    names(begun) = {"b", "a"};
    names(reversed) = {"a", "b", "a"};
    names(other) = {"a"};
    EXPECT_EQ(configuration_of(begun).at(name), "a,b");
    EXPECT_NO_THROW(resumes(begun, reversed)) << name;
    EXPECT_NO_THROW(resumes(reversed, begun)) << name;
    EXPECT_THROW(resumes(begun, other), ArgumentError) << name;
    // In the format of earlier versions.
    Configuration earlier = configuration_of(begun);
    earlier[name] = "b,a,";
    io::Checkpoint checkpoint;
    add_configuration(checkpoint, earlier);
    EXPECT_NO_THROW(check_configuration(checkpoint, configuration_of(reversed))) << name;
  }
}

// Whether the option is given now or was given before.
TEST(CheckConfiguration, OtherPrecisionIsRefusedBothWays) {
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
  RunOptions unscaled = plain;
  unscaled.loss_scale.kind = LossScaling::Kind::kNone;
  EXPECT_NO_THROW(resumes(plain, unscaled)) << "which is what bf16 has by default";
  for (const RunOptions* other : {&kept, &lowered, &norms, &painted, &scaled}) {
    EXPECT_THROW(resumes(plain, *other), ArgumentError);
    EXPECT_THROW(resumes(*other, plain), ArgumentError);
    EXPECT_NO_THROW(resumes(*other, *other));
  }
  EXPECT_THAT(message_of<ArgumentError>([&] { resumes(scaled, plain); }),
              HasSubstr("started with --loss-scale 1024, not none"));
}

TEST(ScheduleOf, HasTheNumbersOfTheOptions) {
  const RunOptions options{.optimizer = {.lr = 0.5},
                           .schedule = {.kind = ScheduleKind::kLinear,
                                        .lr_init = 0.125,
                                        .lr_end = 0.25,
                                        .lr_gamma = 0.75,
                                        .warmup_epochs = 0.35}};
  const Schedule schedule = schedule_of(options, 10, 40);
  EXPECT_EQ(schedule.kind, ScheduleKind::kLinear);
  EXPECT_EQ(schedule.lr, 0.5);
  EXPECT_EQ(schedule.init_lr, 0.125);
  EXPECT_EQ(schedule.end_lr, 0.25);
  EXPECT_EQ(schedule.gamma, 0.75);
  EXPECT_EQ(schedule.steps_per_epoch, 10);
  EXPECT_EQ(schedule.total_steps, 40);
  EXPECT_EQ(schedule.warmup_steps, 4) << "3.5, rounded";
}

// The command's `steps` schedule climbs if a warm-up is requested, and is the course's formula
// otherwise.
TEST(ScheduleOf, StepsClimbWhereTheRunHasAWarmUp) {
  RunOptions options{.optimizer = {.lr = 1},
                     .schedule = {.kind = ScheduleKind::kSteps, .warmup_epochs = 2}};
  EXPECT_EQ(schedule_of(options, 1, 10).kind, ScheduleKind::kWarmSteps);
  EXPECT_EQ(schedule_of(options, 1, 10).at(0), 0.5);
  options.schedule.warmup_epochs = 0;
  EXPECT_EQ(schedule_of(options, 1, 10).kind, ScheduleKind::kSteps);
  EXPECT_EQ(schedule_of(options, 1, 10).at(0), 1);
}

TEST(ScheduleOf, TheLargestRatesGiveFiniteOnes) {
  constexpr auto kLargestRate = double{std::numeric_limits<float>::max()};
  for (const ScheduleKind kind : {ScheduleKind::kPoly, ScheduleKind::kLinear, ScheduleKind::kCosine,
                                  ScheduleKind::kHalfCosine, ScheduleKind::kExponential}) {
    RunOptions options{.optimizer = {.lr = kLargestRate},
                       .schedule = {.kind = kind, .lr_end = kLargestRate, .warmup_epochs = 1e9}};
    for (const double epochs : {0.0, 1.0, 1e9}) {
      options.schedule.warmup_epochs = epochs;
      check_options(options);
      for (const double lr : schedule_of(options, 5, 20).values()) EXPECT_TRUE(std::isfinite(lr));
    }
  }
}

}  // namespace
}  // namespace mezzo::train
