// Tests EarlyStopping: when it ends a training, and which weights remain.
#include "mezzo/train/early_stopping.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/train/checkpointing.h"
#include "mezzo/train/moving_average.h"
#include "tests/unit/data/temp_folder.h"
#include "tests/unit/message_of.h"
#include "tests/unit/train/small_training.h"

namespace mezzo::train {
namespace {

using data::TempFolder;
using testing::HasSubstr;
using StoppingOptions = EarlyStopping::Options;

struct StoppingOutcome {
  std::int64_t epochs;
  std::int64_t best_epoch;
  bool has_stopped;
};

StoppingOutcome stop_after(const std::vector<double>& scores, bool low,
                           const StoppingOptions& options) {
  Small small(scores, low);
  EarlyStopping stopping(options);
  const auto epochs = static_cast<std::int64_t>(scores.size());
  const FitResult result = small.model.fit(
      epochs, small.loader, {.callbacks = {&stopping}, .validation = &small.test_loader});
  EXPECT_EQ(result.stopped, stopping.has_stopped());
  return {result.epochs, stopping.best_epoch(), stopping.has_stopped()};
}

TEST(EarlyStopping, WaitsForItsPatience) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  struct StoppingCase {
    std::vector<double> scores;
    bool low;
    StoppingOptions options;
    std::int64_t epochs;
    std::int64_t best_epoch;
    bool stops;
  };
  for (const StoppingCase& c : {
           StoppingCase{{5, 4, 4, 4, 1}, true, {.patience = 2}, 4, 2, true},
           StoppingCase{{5, 4, 4, 3, 3, 3}, true, {.patience = 2}, 6, 4, true},
           StoppingCase{{1, 2, 2, 2, 9}, false, {.patience = 2}, 4, 2, true},
           StoppingCase{{1, 2, 3, 4, 5}, false, {.patience = 1}, 5, 5, false},
           // An improvement of exactly min_delta is not enough.
           StoppingCase{{5, 4.5, 4, 9}, true, {.patience = 2, .min_delta = 1}, 3, 1, true},
           StoppingCase{{5, 4.5, 3.5, 9}, true, {.patience = 2, .min_delta = 1}, 4, 3, false},
           // The direction of the metric can be overridden.
           StoppingCase{{1, 2, 3, 4}, false, {.patience = 2, .prefers_low = true}, 3, 1, true},
           StoppingCase{{nan, nan, 1, nan, nan}, true, {.patience = 3}, 5, 3, false},
           StoppingCase{{nan, nan, nan, 1}, true, {.patience = 3}, 3, 0, true},
           StoppingCase{{1, 5, 4, 4, 4}, true, {.patience = 2, .start_from_epoch = 2}, 5, 3, true},
       }) {
    StoppingOptions options = c.options;
    options.monitor = "score";
    const StoppingOutcome outcome = stop_after(c.scores, c.low, options);
    EXPECT_EQ(outcome.epochs, c.epochs);
    EXPECT_EQ(outcome.best_epoch, c.best_epoch);
    EXPECT_EQ(outcome.has_stopped, c.stops);
  }
}

// An epoch cut short by FitOptions::steps is evaluated, and the resumed run evaluates it again.
TEST(EarlyStopping, AnEpochThatIsCutShortDoesNotCount) {
  Small small({1, 2, 2});
  EarlyStopping stopping({.monitor = "score", .patience = 1});
  small.model.fit(3, small.loader,
                  {.callbacks = {&stopping}, .steps = 3, .validation = &small.test_loader});
  EXPECT_FALSE(stopping.has_stopped());
  EXPECT_EQ(stopping.best(), 1);
}

// Whether the training ends early or not; the last checkpoint is still that of the last step.
TEST(EarlyStopping, RestoresTheBestWeightsBehindTheLastCheckpoint) {
  for (const std::vector<double>& scores : {std::vector<double>{1, 3, 2, 2}, {1, 3, 2}}) {
    const TempFolder folder;
    Small small(scores);
    EarlyStopping stopping({.monitor = "score", .patience = 2, .restore_best = true});
    ModelCheckpoint checkpoints({.folder = folder.path(), .keep = 0});
    small.model.fit(static_cast<std::int64_t>(scores.size()), small.loader,
                    {.callbacks = {&stopping, &checkpoints}, .validation = &small.test_loader});
    const auto weights_of = [&](const char* name) {
      return io::read_checkpoint(folder.path(name)).tensors(kModelGroup)[0].tensor;
    };
    const auto now = small.net.state()[0].tensor.to_vector<float>();
    EXPECT_EQ(now, weights_of("000002-step-4").to_vector<float>());
    const std::string last = scores.size() == 4 ? "000004-step-8" : "000003-step-6";
    EXPECT_NE(now, weights_of(last.c_str()).to_vector<float>());
  }
}

// For any order of the callbacks.
TEST(EarlyStopping, RestoresTheAveragesIfThoseAreEvaluated) {
  for (const bool average_first : {true, false}) {
    Small small({3, 1});
    ExponentialMovingAverage average({.weights = {.decay = 0.5}});
    EarlyStopping stopping({.monitor = "score", .restore_best = true});
    std::vector<float> best;
    LambdaCallback watch({.on_epoch_end = [&](FitState& state) {
      if (state.epoch == 1) best = average.state()[0].tensor.to_vector<float>();
    }});
    std::vector<Callback*> callbacks{&average, &stopping, &watch};
    if (!average_first) std::swap(callbacks[0], callbacks[1]);
    small.model.fit(2, small.loader, {.callbacks = callbacks, .validation = &small.test_loader});
    EXPECT_EQ(small.net.state()[0].tensor.to_vector<float>(), best);
  }
}

TEST(EarlyStopping, ATrainingThatWasOverEndsAtOnceAndAnotherBeginsAnew) {
  const TempFolder folder;
  const auto fit = [&](Small& small, EarlyStopping& stopping, const std::string& resume) {
    ModelCheckpoint checkpoints({.folder = folder.path()});
    return small.model.fit(5, small.loader,
                           {.callbacks = {&stopping, &checkpoints},
                            .validation = &small.test_loader,
                            .resume = resume});
  };
  Small first({2, 1, 1});
  EarlyStopping stopping({.monitor = "score", .patience = 2});
  EXPECT_EQ(fit(first, stopping, {}).epochs, 3);
  Small second({});
  EarlyStopping resumed({.monitor = "score", .patience = 2});
  const FitResult result = fit(second, resumed, folder.path());
  EXPECT_EQ(result.steps, 6);
  EXPECT_TRUE(result.stopped);
  // With more patience the training continues.
  Small third({3, 3});
  EarlyStopping patient({.monitor = "score", .patience = 3});
  EXPECT_EQ(fit(third, patient, folder.path()).epochs, 5);
  EXPECT_EQ(patient.best_epoch(), 4);
  // The same object in another training.
  Small fourth({1});
  const FitOptions alone{.callbacks = {&stopping}, .validation = &fourth.test_loader};
  EXPECT_FALSE(fourth.model.fit(1, fourth.loader, alone).stopped);
}

TEST(EarlyStopping, RefusesWrongOptions) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const StoppingOptions& options :
       {StoppingOptions{.patience = 0}, StoppingOptions{.min_delta = -1},
        StoppingOptions{.min_delta = nan}, StoppingOptions{.start_from_epoch = 0}}) {
    EXPECT_THROW(EarlyStopping{options}, ArgumentError);
  }
  Small small({});
  EarlyStopping stopping;
  EXPECT_THAT(message_of<ArgumentError>(
                  [&] { small.model.fit(1, small.loader, {.callbacks = {&stopping}}); }),
              HasSubstr("[EarlyStopping] `loss` is a metric of the validation, and there is none"));
}

}  // namespace
}  // namespace mezzo::train
