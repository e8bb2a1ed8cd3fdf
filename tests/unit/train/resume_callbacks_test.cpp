// Tests callbacks with memory: a training with all of them that is interrupted and resumed equals
// an uninterrupted one, bit for bit, eagerly and in graph mode.
#include <algorithm>
#include <map>
#include <memory>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/amp/names/loss_scale_manager.h"
#include "mezzo/core/random.h"
#include "mezzo/train/early_stopping.h"
#include "mezzo/train/moving_average.h"
#include "mezzo/train/reduce_lr.h"
#include "tests/unit/data/temp_folder.h"
#include "tests/unit/io/checkpoint_sample.h"
#include "tests/unit/train/small_training.h"

namespace mezzo::train {
namespace {

using data::TempFolder;

class Interrupted : public std::runtime_error {
 public:
  Interrupted() : std::runtime_error("broken off") {}
};

using StepLog = std::map<std::int64_t, std::vector<double>>;

// Everything that remains of a training.
struct CallbackOutcome {
  FitResult result{};
  StepLog log{};
  std::vector<NamedTensor> weights{};
  io::Checkpoint last{};
  io::Checkpoint best{};
};

// Four steps per epoch. No value is ever better by 100: the rate falls after every second epoch,
// and the training ends after its fourth.
CallbackOutcome train_with_callbacks(const TempFolder& folder, bool graph, std::int64_t every_steps,
                                     std::int64_t broken_step = -1) {
  manual_seed(broken_step < 0 && !io::list_checkpoints(folder.path()).empty() ? 99 : 1);
  test::StatefulNet net;
  const std::vector<Tensor> params = net.parameters();
  optim::Adam optimizer(std::vector<Tensor>(params.begin() + 1, params.end()), {.lr = 0.01});
  optimizer.add_group({{params[0]}, {.lr = 0.005}});
  const amp::LossScaleOptions scale{.init_scale = 0x1p24, .growth_interval = 3};
  Model model(net, amp::class_loss, optimizer,
              {.metrics = {"loss", "accuracy"},
               .amp = {.level = "O2", .loss_scale_manager = amp::LossScaleManager(scale)},
               .graph = graph});
  const auto digits = data::open_digits(data::Split::kTrain, 64);
  data::DataLoader loader(*digits, {.batch_size = 16, .seed = 5});
  data::DataLoader test(*digits, {.batch_size = 32, .shuffle = false});
  CallbackOutcome outcome;
  LambdaCallback watch({.on_step_end = [&](FitState& state) {
    outcome.log[state.step] = {state.result.loss, state.result.skipped ? 1.0 : 0.0, optimizer.lr(0),
                               optimizer.lr(1)};
    if (state.step == broken_step) throw Interrupted();
  }});
  ExponentialMovingAverage average({.weights = {.decay = 0.9, .warmup = true}});
  ExponentialMovingAverage aside({.weights = {.average_buffers = false}, .evaluate = false});
  ReduceLROnPlateau plateau({.factor = 0.5,
                             .patience = 0,
                             .threshold = 100,
                             .threshold_mode = ReduceLROnPlateau::Threshold::kAbsolute,
                             .cooldown = 1,
                             .min_lr = {0.0, 0.004}});
  EarlyStopping stopping(
      {.monitor = "accuracy", .patience = 3, .min_delta = 100, .restore_best = true});
  ModelCheckpoint checkpoints(
      {.folder = folder.path(), .every_steps = every_steps, .keep = 2, .best = "loss"});
  outcome.result =
      model.fit(9, loader,
                {.callbacks = {&checkpoints, &average, &aside, &plateau, &stopping, &watch},
                 .validation = &test,
                 .resume = folder.path()});
  for (const NamedTensor& entry : net.state()) {
    outcome.weights.push_back({entry.name, copy_of(entry.tensor)});
  }
  outcome.last = io::read_latest_checkpoint(folder.path()).checkpoint;
  outcome.best = io::read_latest_checkpoint(folder.path("best")).checkpoint;
  return outcome;
}

// The training is interrupted in that step and resumes.
void expect_unbroken(const CallbackOutcome& whole, bool graph, std::int64_t every_steps,
                     std::int64_t step) {
  SCOPED_TRACE(testing::Message() << "graph " << graph << " every " << every_steps << " broken in "
                                  << step);
  const TempFolder folder;
  EXPECT_THROW(train_with_callbacks(folder, graph, every_steps, step), Interrupted);
  const CallbackOutcome again = train_with_callbacks(folder, graph, every_steps);
  for (const auto& [number, seen] : again.log) EXPECT_EQ(seen, whole.log.at(number));
  EXPECT_EQ(again.result.metrics, whole.result.metrics);
  EXPECT_EQ(again.result.steps, whole.result.steps);
  EXPECT_TRUE(std::ranges::equal(again.weights, whole.weights, io::same_bits));
  EXPECT_TRUE(io::same_checkpoint(again.last, whole.last));
  EXPECT_TRUE(io::same_checkpoint(again.best, whole.best));
}

TEST(FitResume, CallbacksGoOnAsIfTheyHadNeverStopped) {
  for (const bool graph : {false, true}) {
    for (const std::int64_t every_steps : {0, 1, 3}) {
      const TempFolder folder;
      const CallbackOutcome whole = train_with_callbacks(folder, graph, every_steps);
      EXPECT_EQ(whole.result.steps, 16);
      EXPECT_TRUE(whole.result.stopped);
      EXPECT_EQ(whole.log.at(9)[2], 0.005) << "the rate is meant to have been reduced";
      EXPECT_EQ(whole.log.at(9)[3], 0.004);
      EXPECT_EQ(whole.log.at(1)[1], 1) << "the first step is meant to be skipped";
      for (const std::int64_t step : {2, 4, 9, 13, 16}) {
        expect_unbroken(whole, graph, every_steps, step);
      }
    }
  }
}

// A callback that did not exist when the checkpoint was written starts there.
TEST(FitResume, CallbacksThatAreNewBeginWithTheCheckpoint) {
  const TempFolder folder;
  Small first({0.1, 0.2});
  first.fit(2, {.folder = folder.path()});
  Small second({0.3, 0.3});
  ExponentialMovingAverage average;
  EarlyStopping stopping({.monitor = "score", .patience = 1});
  ReduceLROnPlateau plateau({.monitor = "score", .patience = 0});
  ModelCheckpoint checkpoints({.folder = folder.path()});
  second.model.fit(4, second.loader,
                   {.callbacks = {&checkpoints, &average, &stopping, &plateau},
                    .validation = &second.test_loader,
                    .resume = folder.path()});
  EXPECT_EQ(average.average()->updates(), 4);
  EXPECT_EQ(stopping.best_epoch(), 3);
  EXPECT_TRUE(stopping.has_stopped());
  EXPECT_EQ(plateau.reductions(), 1);
}

// The checkpoint belongs to another network, which its weights show first.
TEST(FitResume, CallbacksForgetWhatTheyLoadedOfACheckpointThatDoesNotFit) {
  const TempFolder folder;
  const CheckpointConfig config{.folder = folder.path()};
  ExponentialMovingAverage written;
  Small({0.1}).fit(1, config, {}, &written);
  ExponentialMovingAverage average;
  Small other({0.1, 0.2}, false, 2);
  EXPECT_THROW(other.fit(2, config, folder.path(), &average), ArgumentError);
  EXPECT_EQ(average.average(), nullptr);
  const TempFolder empty;
  other.fit(1, {.folder = empty.path()}, {}, &average);
  EXPECT_EQ(average.average()->updates(), 4) << "it begins, and does not go on";
}

}  // namespace
}  // namespace mezzo::train
