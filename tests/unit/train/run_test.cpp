#include "mezzo/train/run.h"

#include <cmath>
#include <numeric>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/core/cpu.h"
#include "mezzo/core/parallel.h"
#include "mezzo/data/digits.h"
#include "mezzo/ops/dispatcher/kernel_listener.h"
#include "mezzo/ops/exact_sums.h"
#include "mezzo/train/configuration.h"
#include "mezzo/train/median.h"
#include "mezzo/train/step_statistics.h"
#include "tests/unit/data/temp_folder.h"
#include "tests/unit/io/checkpoint_sample.h"

namespace mezzo::train {
namespace {

class Events final : public RunObserver {
 public:
  void on_step(const StepEvent& event) override { steps.push_back(event); }
  void on_epoch(const EpochEvent& event) override { epochs.push_back(event); }
  void on_first_batch(const data::Batch& batch, const data::Dataset&) override {
    first_indices = batch.indices;
  }
  std::vector<StepEvent> steps;
  std::vector<EpochEvent> epochs;
  std::vector<std::int64_t> first_indices;
};

DataPair small_digits() {
  return {data::open_digits(data::Split::kTrain, 1280), data::open_digits(data::Split::kTest, 256)};
}

RunOptions options_for(amp::Level level, DType lower) {
  RunOptions options;
  options.policy = {level, lower};
  options.batch_size = 32;
  options.optimizer.lr = 0.05;
  options.epochs = 5;
  return options;
}

struct Precision {
  amp::Level level;
  DType lower;
};

const Precision kPrecisions[] = {{amp::Level::kO0, DType::kBf16}, {amp::Level::kO1, DType::kBf16},
                                 {amp::Level::kO2, DType::kBf16}, {amp::Level::kO1, DType::kF16},
                                 {amp::Level::kO2, DType::kF16},  {amp::Level::kO3, DType::kBf16}};

TEST(Run, LearnsInEveryPrecision) {
  const DataPair data = small_digits();
  for (const Precision& precision : kPrecisions) {
    Events recorder;
    const RunResult result = run(options_for(precision.level, precision.lower), data, recorder);
    const std::string name = concat(amp::name_of(precision.level), "/", name_of(precision.lower));
    EXPECT_EQ(result.steps, 200) << name;
    EXPECT_EQ(recorder.epochs.size(), 5U) << name;
    EXPECT_LT(recorder.epochs.back().train_loss, 1.5) << name;  // 2.3 at the start
    EXPECT_GT(result.test.accuracy, 0.5) << name;               // 0.1 by chance
    EXPECT_GT(result.peak_bytes, 0) << name;
  }
}

TEST(Run, TheSameOptionsGiveTheSameBits) {
  const DataPair data = small_digits();
  for (const Precision& precision : kPrecisions) {
    Events first;
    Events second;
    RunOptions options = options_for(precision.level, precision.lower);
    options.steps = 10;
    const double a = run(options, data, first).test.loss;
    const double b = run(options, data, second).test.loss;
    EXPECT_EQ(a, b);
    for (std::size_t i = 0; i < 10; ++i) {
      EXPECT_EQ(first.steps[i].report.loss, second.steps[i].report.loss) << i;
    }
  }
}

TEST(Run, OptionsReachWhatTheyAreFor) {
  const DataPair data = small_digits();
  const auto losses = [&](auto change) {
    Events events;
    RunOptions options = options_for(amp::Level::kO0, DType::kBf16);
    options.steps = 3;
    change(options);
    run(options, data, events);
    return std::pair(events.first_indices,
                     std::vector<double>{events.steps[0].report.loss, events.steps[2].report.loss});
  };
  const auto [indices, plain] = losses([](RunOptions&) {});
  const auto [ordered, other] = losses([](RunOptions& o) { o.shuffle = false; });
  std::vector<std::int64_t> in_order(32);
  std::iota(in_order.begin(), in_order.end(), 0);
  EXPECT_EQ(ordered, in_order);
  EXPECT_NE(indices, in_order);
  EXPECT_NE(losses([](RunOptions& o) { o.seed = 2; }).first, indices);
  EXPECT_NE(losses([](RunOptions& o) { o.loss.label_smoothing = 0.1; }).second[0], plain[0]);
  EXPECT_NE(losses([](RunOptions& o) { o.optimizer.momentum = 0; }).second[1], plain[1]);
  EXPECT_NE(losses([](RunOptions& o) { o.optimizer.weight_decay = 0.1; }).second[1], plain[1]);
  const auto recompute_none = [](RunOptions& o) { o.recompute = {"fc9"}; };
  EXPECT_THROW(losses(recompute_none), ArgumentError);
}

TEST(Run, WithExactSumsNoConvolutionIsByWinograd) {
  struct Kernels final : KernelListener {
    void on_run(const KernelWork& work, double) override {
      winograd += static_cast<int>(std::string_view(work.kernel) == "cpu_winograd");
    }
    int winograd = 0;
    ListenToKernels guard{*this};
  };
  const DataPair data{data::open_digits(data::Split::kTrain, 32),
                      data::open_digits(data::Split::kTest, 32)};
  RunOptions options = options_for(amp::Level::kO0, DType::kBf16);
  options.model = "resnet20";
  options.epochs = 1;
  for (const bool graph : {false, true}) {
    options.graph = graph;
    const auto count = [&](bool exact) {
      options.exact_sums = exact;
      Kernels kernels;
      Events events;
      run(options, data, events);
      bench(options, {.warmup = 0, .steps = 1}, events);
      return kernels.winograd;
    };
    EXPECT_EQ(count(true), 0) << graph;
    EXPECT_EQ(count(false) > 0, has_vectors()) << graph;
  }
  EXPECT_FALSE(are_sums_exact()) << "outside of the run";
}

TEST(Run, ChecksTheOptionsOfCheckpointsInAFolder) {
  const data::TempFolder folder;
  Events events;
  RunOptions options = options_for(amp::Level::kO0, DType::kBf16);
  options.steps = 7;
  options.checkpoints = {.folder = folder.path(), .every = 2, .keep = 2};
  const Evaluation test = run(options, small_digits(), events).test;
  EXPECT_THAT(io::names_in(folder.path()), testing::ElementsAre("000003-step-6", "000004-step-7"));
  // A resumed run that has nothing left to do is still evaluated.
  options.checkpoints.resume = true;
  EXPECT_EQ(run(options, small_digits(), events).test.loss, test.loss);
  EXPECT_EQ(events.steps.size(), 7U);
}

TEST(Run, EachStepHasTheRateOfItsPlaceInTheSchedule) {
  Events events;
  RunOptions options = options_for(amp::Level::kO0, DType::kBf16);
  options.schedule.kind = ScheduleKind::kLinear;
  options.steps = 4;
  run(options, small_digits(), events);
  std::vector<double> rates;
  for (const StepEvent& step : events.steps) rates.push_back(step.lr);
  EXPECT_EQ(rates, schedule_of(options, 40, 4).values());
}

// Labels are smoothed only in training, but the level applies to both.
TEST(Run, TestsAsEvaluateDoes) {
  const DataPair data = small_digits();
  Events events;
  RunOptions options = options_for(amp::Level::kO2, DType::kBf16);
  options.steps = 2;
  options.loss.label_smoothing = 0.2;
  std::unique_ptr<nn::Module> net;
  const Evaluation test = run(options, data, events, &net).test;
  EXPECT_EQ(evaluate(*net, *data.test, {.batch_size = 32, .policy = options.policy}).loss,
            test.loss);
  EXPECT_NE(evaluate(*net, *data.test, {.batch_size = 32}).loss, test.loss);
}

TEST(Run, StoppedBehindItsLastStepItIsDone) {
  const DataPair data = small_digits();
  for (const std::size_t last : {2, 3}) {
    Events events;
    RunOptions options = options_for(amp::Level::kO0, DType::kBf16);
    options.steps = 3;
    options.should_stop = [&] { return events.steps.size() == last; };
    EXPECT_EQ(run(options, data, events).stopped, last == 2) << last;
  }
}

class GradientRecorder final : public RunObserver {
 public:
  void on_gradients(const amp::GradientStatistics& statistics) override {
    counted_steps = statistics.counted_steps();
    parameters = statistics.total();
    activations = statistics.total_activations();
  }
  std::int64_t counted_steps = 0;
  std::vector<amp::GradientHistogram> parameters;
  std::vector<amp::GradientHistogram> activations;
};

// Gradients are observed but not changed, in any precision.
TEST(Run, CountingGradientsChangesNoBit) {
  const DataPair data = small_digits();
  for (const Precision& precision : kPrecisions) {
    GradientRecorder recorder;
    RunOptions options = options_for(precision.level, precision.lower);
    options.steps = 5;
    const double plain = run(options, data, recorder).test.loss;
    EXPECT_EQ(recorder.counted_steps, 0);
    options.histogram_every = 2;
    options.activation_gradients = true;
    EXPECT_EQ(run(options, data, recorder).test.loss, plain);
    EXPECT_EQ(recorder.counted_steps, 3);
    EXPECT_EQ(recorder.parameters.size(), 10U);
    EXPECT_EQ(recorder.parameters[0].name, "conv1.weight");
    EXPECT_EQ(recorder.parameters[0].counts.total(), 3 * recorder.parameters[0].shape.numel());
    EXPECT_EQ(recorder.activations.size(), 5U);
    EXPECT_EQ(recorder.activations[4].counts.total(), 3 * 32 * 10);
  }
}

TEST(Run, DifferentSeedsDiffer) {
  const DataPair data = small_digits();
  Events recorder;
  RunOptions options = options_for(amp::Level::kO0, DType::kBf16);
  options.steps = 3;
  const double a = run(options, data, recorder).test.loss;
  options.seed = 2;
  EXPECT_NE(run(options, data, recorder).test.loss, a);
}

TEST(Run, AnOverflowingScaleIsSkippedDownAndThenTrains) {
  const DataPair data = small_digits();
  Events recorder;
  RunOptions options = options_for(amp::Level::kO2, DType::kF16);
  options.loss_scale = {.kind = LossScaling::Kind::kStatic, .scale = 0x1p30};
  options.steps = 3;
  const RunResult result = run(options, data, recorder);
  EXPECT_EQ(result.skipped_steps, 3);
  EXPECT_EQ(recorder.steps[0].report.scale, 0x1p30);
  EXPECT_TRUE(recorder.steps[2].report.overflow);
}

TEST(Run, TheScalerIsOnForF16AndOffForBf16) {
  EXPECT_TRUE(make_scaler({}, {amp::Level::kO2, DType::kF16}).is_enabled());
  EXPECT_FALSE(make_scaler({}, {amp::Level::kO2, DType::kBf16}).is_enabled());
  EXPECT_FALSE(make_scaler({}, {amp::Level::kO0, DType::kF16}).is_enabled());
  const auto fixed = make_scaler({LossScaling::Kind::kStatic, 128}, {amp::Level::kO2, DType::kF16});
  EXPECT_EQ(fixed.get_scale(), 128);
  EXPECT_FALSE(
      make_scaler({LossScaling::Kind::kNone}, {amp::Level::kO2, DType::kF16}).is_enabled());
  EXPECT_TRUE(
      make_scaler({LossScaling::Kind::kDynamic}, {amp::Level::kO2, DType::kBf16}).is_enabled());
}

TEST(Median, IsTheMeanOfTheMiddleOnes) {
  EXPECT_EQ(median({}), 0);
  EXPECT_EQ(median({7}), 7);
  EXPECT_EQ(median({9, 1, 4}), 4);
  EXPECT_EQ(median({3, 1}), 2);
  EXPECT_EQ(median({10, 2, 100, 4}), 7);
}

TEST(StepStatistics, AreOfWhatWasAdded) {
  StepStatistics statistics;
  for (const double ms : {3.0, 1.0, 2.0}) {
    amp::TrainStepResult step;
    step.forward_ms = ms;
    step.backward_ms = 10 * ms;
    step.update_ms = 100 * ms;
    step.skipped = ms == 1;
    statistics.add(step);
  }
  RunResult result;
  statistics.write(result, 5);
  EXPECT_EQ(result.steps, 3);
  EXPECT_EQ(result.skipped_steps, 1);
  EXPECT_EQ(result.total_ms, 666);
  EXPECT_EQ(result.step_ms_median, 222);
  EXPECT_EQ(result.step_ms_min, 111);
  EXPECT_EQ(result.step_ms_max, 333);
  EXPECT_EQ(result.forward_ms_median, 2);
  EXPECT_EQ(result.backward_ms_median, 20);
  EXPECT_EQ(result.update_ms_median, 200);
  EXPECT_EQ(result.images_per_s, 1000 * 5 / 222.0);
}

// Such steps end at their loss, and would make a network that learns nothing look faster.
TEST(StepStatistics, StepsWithoutABackwardPassHaveNoPartInTheMedians) {
  StepStatistics statistics;
  const auto add = [&](double forward_ms, bool is_cut) {
    amp::TrainStepResult step{.nonfinite_loss = is_cut, .skipped = is_cut};
    step.forward_ms = forward_ms;
    step.backward_ms = is_cut ? 0 : 6;
    statistics.add(step);
  };
  RunResult result;
  for (const double ms : {1.0, 2.0, 3.0}) add(ms, true);
  statistics.write(result, 1);
  EXPECT_EQ(result.step_ms_median, 2) << "there are no others";
  add(4, false);
  statistics.write(result, 1);
  EXPECT_EQ(result.steps, 4);
  EXPECT_EQ(result.skipped_steps, 3);
  EXPECT_EQ(result.step_ms_median, 10);
  EXPECT_EQ(result.step_ms_min, 10);
  EXPECT_EQ(result.images_per_s, 100);
  EXPECT_EQ(result.total_ms, 16);
}

// Writes an MNIST folder with one black image each, of these heights and 4 pixels wide.
std::string write_mnist(const data::TempFolder& folder, std::uint8_t train, std::uint8_t test) {
  const auto write = [&](const std::string& prefix, std::uint8_t height) {
    data::Bytes images{0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, height, 0, 0, 0, 4};
    images.resize(images.size() + std::size_t{4} * height);
    folder.write(prefix + "-images-idx3-ubyte", images);
    folder.write(prefix + "-labels-idx1-ubyte", {0, 0, 8, 1, 0, 0, 0, 1, 7});
  };
  write("train", train);
  write("t10k", test);
  return "mnist:" + folder.path();
}

TEST(OpenData, SetsOfOtherShapesAreRefused) {
  const data::TempFolder folder;
  const std::string spec = write_mnist(folder, 4, 6);
  EXPECT_EQ(message_of<ArgumentError>([&] { open_data(spec); }),
            "[data] " + spec +
                ": training images are [1, 4, 4], test images [1, 6, 4]. Bring them to one size "
                "with --image-size, or use files of one set");
  EXPECT_EQ(open_data(spec, {.image_size = 4}).test->image_shape(), Shape({1, 4, 4}));
}

TEST(Run, AStaticScaleStays) {
  auto scaler = make_scaler({LossScaling::Kind::kStatic, 128}, {amp::Level::kO2, DType::kF16});
  scaler.state().update(true);
  EXPECT_EQ(scaler.get_scale(), 128);
  for (int i = 0; i < 5000; ++i) scaler.state().update(false);
  EXPECT_EQ(scaler.get_scale(), 128);
}

TEST(Bench, CountsOnlyStepsAfterTheWarmUp) {
  Events recorder;
  RunOptions options;
  options.model = "mlp";
  options.image_size = 28;
  options.batch_size = 8;
  const RunResult result = bench(options, {.warmup = 2, .steps = 3}, recorder);
  EXPECT_EQ(result.steps, 3);
  EXPECT_EQ(recorder.steps.size(), 5U);
  EXPECT_GT(result.images_per_s, 0);
}

TEST(Evaluate, DoesNotDependOnTheBatchSizeAndRestoresTheMode) {
  const DataPair data = small_digits();
  const auto net = make_model({}, data.test->image_shape(), 10);
  net->train(true);
  const Evaluation a = evaluate(*net, *data.test, {.batch_size = 256});
  const Evaluation b = evaluate(*net, *data.test, {.batch_size = 7});
  EXPECT_EQ(a.accuracy, b.accuracy);
  EXPECT_NEAR(a.loss, b.loss, 1e-5);
  EXPECT_TRUE(net->is_training());
}

}  // namespace
}  // namespace mezzo::train
