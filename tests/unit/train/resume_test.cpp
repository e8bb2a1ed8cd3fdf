// Tests Model::fit() with checkpoints: interrupted and resumed equals uninterrupted, bit for bit.
#include <map>
#include <memory>
#include <span>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/core/random.h"
#include "mezzo/data/digits.h"
#include "mezzo/data/loader.h"
#include "mezzo/ops/losses.h"
#include "mezzo/optim/adam.h"
#include "mezzo/train/model.h"
#include "mezzo/train/model_checkpoint.h"
#include "tests/unit/amp/small_net.h"
#include "tests/unit/data/temp_folder.h"
#include "tests/unit/io/checkpoint_sample.h"
#include "tests/unit/io/stateful_net.h"
#include "tests/unit/message_of.h"
#include "tests/unit/train/small_training.h"

namespace mezzo::train {
namespace {

using data::TempFolder;
using testing::HasSubstr;

constexpr std::int64_t kEpochs = 3;
constexpr std::int64_t kSteps = 12;

// Simulates a power failure.
class Broken : public std::runtime_error {
 public:
  Broken() : std::runtime_error("broken off") {}
};

// The visible results of each step, by its number.
using Log = std::map<std::int64_t, std::vector<double>>;

// One process of a training. Its objects are created anew, from another seed each time, so that
// anything missing in a checkpoint differs.
class Process {
 public:
  explicit Process(std::string folder, std::uint64_t seed = 1) : folder_(std::move(folder)) {
    manual_seed(seed);
    net_ = std::make_unique<test::StatefulNet>();
    optimizer_ = std::make_unique<optim::Adam>(
        net_->parameters(), optim::AdamOptions{.lr = {0.01, 0.02, 0.005, 0.03, 0.001, 0.02}});
    // The first steps overflow f16 and are skipped; three good ones in a row raise the scale.
    const amp::LossScaleOptions scale{.init_scale = 0x1p24, .growth_interval = 3};
    model_ = std::make_unique<Model>(
        *net_, amp::class_loss, *optimizer_,
        ModelOptions{.metrics = {"loss", "accuracy"},
                     .amp = {.level = "O2", .loss_scale_manager = amp::LossScaleManager(scale)}});
  }

  // Trains, and is interrupted in one step or stops after another, if these are given.
  FitResult fit(std::int64_t every_steps, std::int64_t broken_step = -1,
                std::int64_t stopped_step = -1) {
    LambdaCallback watch({.on_step_end = [&](FitState& state) {
      const amp::TrainStepResult& result = state.result;
      log[state.step] = {result.loss,
                         result.scale,
                         result.skipped ? 1.0 : 0.0,
                         state.lr,
                         static_cast<double>(state.epoch),
                         static_cast<double>(state.step_in_epoch),
                         static_cast<double>(state.skipped_steps),
                         static_cast<double>(result.skipped_in_a_row),
                         static_cast<double>(state.total_steps)};
      if (state.step == broken_step) throw Broken();
      if (state.step == stopped_step) state.stop = true;
    }});
    ModelCheckpoint checkpoints(
        {.folder = folder_, .every_steps = every_steps, .keep = 2, .best = "loss"});
    StopOnDivergence guard({.factor = 1e6});
    return model_->fit(kEpochs, loader_,
                       {.callbacks = {&checkpoints, &guard, &watch},
                        .validation = &test_loader_,
                        .resume = folder_});
  }

  io::Checkpoint last_checkpoint() const { return io::read_latest_checkpoint(folder_).checkpoint; }

  Log log;

 private:
  std::string folder_;
  std::unique_ptr<data::Dataset> digits_ = data::open_digits(data::Split::kTrain, 64);
  std::unique_ptr<data::Dataset> test_ = data::open_digits(data::Split::kTest, 32);
  data::DataLoader loader_{*digits_, {.batch_size = 16, .seed = 5}};
  data::DataLoader test_loader_{*test_, {.batch_size = 16, .shuffle = false}};
  std::unique_ptr<test::StatefulNet> net_;
  std::unique_ptr<optim::Adam> optimizer_;
  std::unique_ptr<Model> model_;
};

// The training is interrupted in that step and resumes; steps that were done twice must give the
// same results.
void expect_unbroken(std::int64_t every_steps, std::int64_t broken_step) {
  SCOPED_TRACE(testing::Message() << "every " << every_steps << ", broken in " << broken_step);
  const TempFolder whole_folder;
  Process whole(whole_folder.path());
  const FitResult expected = whole.fit(every_steps);

  const TempFolder folder;
  Process first(folder.path());
  EXPECT_THROW(first.fit(every_steps, broken_step), Broken);
  const bool begins = io::list_checkpoints(folder.path()).empty();
  Process second(folder.path(), begins ? 1 : 99);
  const FitResult result = second.fit(every_steps);
  for (const Process* process : {&first, &second}) {
    for (const auto& [step, seen] : process->log) EXPECT_EQ(seen, whole.log[step]) << step;
  }
  EXPECT_EQ(first.log.rbegin()->first, broken_step);
  EXPECT_LE(second.log.empty() ? kSteps : second.log.begin()->first, broken_step + 1);
  EXPECT_EQ(result.steps, kSteps);
  EXPECT_EQ(result.epochs, kEpochs);
  EXPECT_EQ(result.skipped_steps, expected.skipped_steps);
  EXPECT_EQ(result.metrics, expected.metrics);
  EXPECT_TRUE(io::same_checkpoint(second.last_checkpoint(), whole.last_checkpoint()));
  const auto best = [](const TempFolder& of) {
    return io::read_latest_checkpoint(of.path("best")).checkpoint;
  };
  EXPECT_TRUE(io::same_checkpoint(best(folder), best(whole_folder)));
}

// Four steps per epoch. The first ones are skipped. Checkpoints are taken in the middle and at the
// end of epochs, before and after the evaluation.
TEST(FitResume, GoesOnAsIfItHadNeverStopped) {
  const TempFolder folder;
  Process whole(folder.path());
  const std::int64_t skipped = whole.fit(1).skipped_steps;
  EXPECT_LT(skipped, kSteps - 4) << "the scale is meant to become right";
  EXPECT_EQ(whole.log[2][7], 2) << "the second step is meant to be skipped, too";
  for (const std::int64_t step : {1, 3, 5, 9}) expect_unbroken(1, step);
  for (const std::int64_t step : {4, 8}) expect_unbroken(3, step);
  for (const std::int64_t step : {3, 6, 12}) expect_unbroken(0, step);
}

// Killed after its last step, before the work at the end of the epoch.
TEST(FitResume, TheEndOfTheLastEpochIsStillToCome) {
  const TempFolder folder;
  const auto fit = [&](double score, bool breaks) {
    Small small({score});
    ModelCheckpoint checkpoints({.folder = folder.path(), .every_steps = 1, .best = "score"});
    LambdaCallback watch({.on_epoch_end = [=](FitState&) {
      if (breaks) throw Broken();
    }});
    return small.model.fit(1, small.loader,
                           {.callbacks = {&checkpoints, &watch},
                            .validation = &small.test_loader,
                            .resume = folder.path()});
  };
  EXPECT_THROW(fit(0.25, true), Broken);
  const FitResult result = fit(0.5, false);
  EXPECT_EQ(result.steps, 2);
  EXPECT_EQ(result.metrics, (std::map<std::string, double>{{"score", 0.5}}));
  EXPECT_THAT(io::names_in(folder.path("best")), testing::ElementsAre("000001-step-2"));
}

// The steps of its epoch are done, and the continuation is the unbroken training.
TEST(FitResume, AnEvaluationThatFailsLosesNoStep) {
  const TempFolder whole;
  const TempFolder broken;
  const auto config = [](const TempFolder& folder) {
    return CheckpointConfig{.folder = folder.path(), .best = "score"};
  };
  manual_seed(1);
  Small({0.1, 0.2, 0.3}).fit(3, config(whole));
  manual_seed(1);
  // It fails because there is no second score.
  EXPECT_THROW(Small({0.1}).fit(3, config(broken)), std::out_of_range);
  EXPECT_THAT(io::names_in(broken.path()),
              testing::ElementsAre("000001-step-2", "000002-step-4", "best"));
  EXPECT_EQ(Small({0.2, 0.3}).fit(3, config(broken), broken.path()).steps, 6);
  const auto last = [](const std::string& folder) {
    return io::read_latest_checkpoint(folder).checkpoint;
  };
  EXPECT_TRUE(io::same_checkpoint(last(broken.path()), last(whole.path())));
  EXPECT_TRUE(io::same_checkpoint(last(broken.path("best")), last(whole.path("best"))));
}

// Includes an epoch that is cut short; an exception from saving does not hide the first error.
TEST(FitResume, AnEvaluationThatFailsIsWhatIsThrown) {
  const TempFolder folder;
  Small small({});
  std::int64_t failed_after = 0;
  LambdaCallback watch({.on_evaluation_failed = [&](FitState& state) {
    failed_after = state.step;
    throw Broken();
  }});
  EXPECT_THROW(
      small.model.fit(1, small.loader,
                      {.callbacks = {&watch}, .steps = 1, .validation = &small.test_loader}),
      std::out_of_range);
  EXPECT_EQ(failed_after, 1);
}

// Two steps per epoch; the image of the fourth step is unreadable, or none is.
class BrokenImage final : public data::Dataset {
 public:
  explicit BrokenImage(bool is_broken) : is_broken_(is_broken) {}
  std::int64_t size() const override { return digits_->size(); }
  Shape image_shape() const override { return digits_->image_shape(); }
  std::int64_t num_classes() const override { return digits_->num_classes(); }
  data::Normalization normalization() const override { return digits_->normalization(); }
  std::int64_t label(std::int64_t index) const override { return digits_->label(index); }
  std::int64_t read(std::int64_t index, Generator& random,
                    std::span<std::uint8_t> pixels) const override {
    if (is_broken_ && index == size() - 1) throw FileError("[images] is cut off");
    return digits_->read(index, random, pixels);
  }

 private:
  std::unique_ptr<data::Dataset> digits_ = data::open_digits(data::Split::kTrain, 16);
  bool is_broken_;
};

TEST(FitResume, ABatchThatFailsLosesNoSteps) {
  const TempFolder broken;
  const TempFolder whole;
  const auto fit_on = [&](bool is_broken, const TempFolder& folder, bool resumes) {
    manual_seed(1);
    const BrokenImage images(is_broken);
    data::DataLoader loader(images, {.batch_size = 4, .shuffle = false, .drop_remainder = true});
    Small small({});
    ModelCheckpoint checkpoints({.folder = folder.path(), .every_steps = 100});
    return small.model
        .fit(1, loader,
             {.callbacks = {&checkpoints}, .resume = resumes ? folder.path() : std::string()})
        .steps;
  };
  EXPECT_THROW(fit_on(true, broken, false), FileError);
  EXPECT_EQ(io::names_in(broken.path()), std::vector<std::string>{"000001-step-3"});
  EXPECT_EQ(fit_on(false, broken, true), 4);
  EXPECT_EQ(fit_on(false, whole, false), 4);
  const auto last = [](const TempFolder& folder) {
    return io::read_latest_checkpoint(folder.path()).checkpoint;
  };
  EXPECT_TRUE(io::same_checkpoint(last(broken), last(whole)));
}

TEST(FitResume, AFinishedTrainingHasNothingLeftToDo) {
  const TempFolder folder;
  Process first(folder.path());
  const FitResult done = first.fit(0);
  Process second(folder.path(), 99);
  const FitResult result = second.fit(0);
  EXPECT_TRUE(second.log.empty());
  EXPECT_EQ(result.metrics.size(), 2U);
  EXPECT_EQ(result.metrics, done.metrics);
  EXPECT_EQ(result.steps, kSteps);
  EXPECT_EQ(result.epochs, kEpochs);
}

// The last epoch has begun, though it did not end, and is counted again.
TEST(FitResume, AFinishedTrainingCountsThePartOfAnEpoch) {
  const TempFolder folder;
  const auto fit = [&] {
    Small small({});
    ModelCheckpoint checkpoints({.folder = folder.path()});
    return small.model.fit(kEpochs, small.loader,
                           {.callbacks = {&checkpoints}, .steps = 3, .resume = folder.path()});
  };
  EXPECT_EQ(fit().epochs, 2);
  const FitResult again = fit();
  EXPECT_EQ(again.steps, 3);
  EXPECT_EQ(again.epochs, 2);
}

// A callback stops in the middle of an epoch, which then has no end.
TEST(FitResume, AStoppedTrainingGoesOn) {
  const TempFolder whole_folder;
  Process whole(whole_folder.path());
  whole.fit(0);
  const TempFolder folder;
  Process first(folder.path());
  const FitResult stopped = first.fit(0, -1, 6);
  EXPECT_TRUE(stopped.stopped);
  EXPECT_EQ(stopped.steps, 6);
  EXPECT_EQ(first.last_checkpoint().step, 6);
  Process second(folder.path(), 99);
  second.fit(0);
  EXPECT_EQ(second.log.begin()->first, 7);
  for (const auto& [step, seen] : second.log) EXPECT_EQ(seen, whole.log[step]) << step;
  EXPECT_TRUE(io::same_checkpoint(second.last_checkpoint(), whole.last_checkpoint()));
}

// Overrides the losses that later callbacks see, by step.
LambdaCallback::Functions with_losses(const std::vector<double>& losses) {
  return {.on_step_end = [losses](FitState& state) {
    state.result.loss = losses.at(static_cast<std::size_t>(state.step - 1));
  }};
}

// Two guards; only the second one has seen two bad steps in a row.
TEST(FitResume, CallbacksOfOneKindKeepWhatIsTheirs) {
  const TempFolder folder;
  const std::vector<double> losses{1, 1, 4, 4, 4, 4};
  const StopOnDivergence::Options patient{.patience = 2};
  const StopOnDivergence::Options strict{.factor = 2, .patience = 3};
  const auto fit = [&](std::int64_t epochs, std::vector<Callback*> guards) {
    Small small({});
    LambdaCallback script(with_losses(losses));
    ModelCheckpoint checkpoints({.folder = folder.path()});
    FitOptions options{.callbacks = {&script, &checkpoints}, .resume = folder.path()};
    options.callbacks.insert(options.callbacks.end(), guards.begin(), guards.end());
    return small.model.fit(epochs, small.loader, options);
  };
  {
    StopOnDivergence first(patient);
    StopOnDivergence second(strict);
    EXPECT_EQ(fit(2, {&first, &second}).steps, 4);
  }
  StopOnDivergence first(patient);
  StopOnDivergence second(strict);
  StopOnDivergence third(strict);  // new here, so it starts anew
  bool first_has_stopped = false;
  LambdaCallback watch(
      {.on_epoch_begin = [&](FitState&) { first_has_stopped = first.has_stopped(); }});
  EXPECT_EQ(fit(3, {&watch, &first, &second, &third}).steps, 5);
  EXPECT_FALSE(first_has_stopped) << "it has loaded what the second one saved";
  EXPECT_TRUE(second.has_stopped());
  EXPECT_FALSE(third.has_stopped());
}

// As in checkpoints from when there was one section for each kind.
TEST(FitResume, TheFirstCallbackOfAKindHasTheSectionOfThatName) {
  StopOnDivergence guard;
  io::Checkpoint checkpoint;
  guard.save(checkpoint);
  EXPECT_TRUE(checkpoint.values.contains("divergence"));
}

class Refusing final : public Callback {
 public:
  void load(const io::Checkpoint&) override { throw Broken(); }
};

TEST(FitResume, RefusesAnotherLoaderAndChangesNothing) {
  const TempFolder folder;
  const CheckpointConfig config{.folder = folder.path()};
  Small({0.1}).fit(1, config);
  Small other({0.1}, false, 2);
  const auto before = other.net.parameters()[0].to_vector<float>();
  EXPECT_THAT(message_of<ArgumentError>([&] { other.fit(2, config, folder.path()); }),
              HasSubstr("step_size 4, now it is 2"));
  Refusing refusing;
  Small third({0.1});
  const auto weights = third.net.parameters()[0].to_vector<float>();
  EXPECT_THROW(third.fit(2, config, folder.path(), &refusing), Broken);
  EXPECT_EQ(third.net.parameters()[0].to_vector<float>(), weights);
  EXPECT_EQ(other.net.parameters()[0].to_vector<float>(), before);
  EXPECT_EQ(other.loader.position(), data::LoaderPosition{});
}

class Remembering final : public Callback {
 public:
  explicit Remembering(std::int64_t value) : value_(value) {}
  void save(io::Checkpoint& checkpoint) const override {
    checkpoint.values[section("remembering")] = {{"value", value_}};
  }
  void load(const io::Checkpoint& checkpoint) override {
    value_ = checkpoint.value<std::int64_t>(section("remembering"), "value");
  }
  std::int64_t value() const { return value_; }

 private:
  std::int64_t value_;
};

// Whether a later callback refuses, or the loader.
TEST(FitResume, CallbacksForgetWhatTheyLoadedIfTheRestDoesNotFit) {
  const TempFolder folder;
  const CheckpointConfig config{.folder = folder.path(), .best = "score"};
  const auto fit = [&](Small&& small, const std::vector<Callback*>& callbacks) {
    const FitOptions options{
        .callbacks = callbacks, .validation = &small.test_loader, .resume = folder.path()};
    small.model.fit(2, small.loader, options);
  };
  ModelCheckpoint checkpoints(config);
  Remembering seven(7);
  fit(Small({0.1, 0.2}), {&checkpoints, &seven});
  ModelCheckpoint others(config);
  Remembering three(3);
  Remembering four(4);
  Refusing refusing;
  EXPECT_THROW(fit(Small({}), {&others, &three, &refusing, &four}), Broken);
  EXPECT_EQ(three.value(), 3);
  EXPECT_EQ(others.best(), std::nullopt);
  EXPECT_THROW(fit(Small({}, false, 2), {&others, &three}), ArgumentError);
  EXPECT_EQ(three.value(), 3);
  EXPECT_EQ(others.best(), std::nullopt);
  fit(Small({}), {&others, &three});
  EXPECT_EQ(three.value(), 7);
  EXPECT_EQ(others.best(), 0.2);
}

// A callback that only notices the mismatch after loading.
class LateRefusing final : public Callback {
 public:
  void save(io::Checkpoint& checkpoint) const override {
    checkpoint.values[section("late")] = {{"value", value}};
  }
  void load(const io::Checkpoint& checkpoint) override {
    value = checkpoint.value<std::int64_t>(section("late"), "value");
    if (value == 7) throw Broken();
  }
  std::int64_t value = 7;
};

TEST(FitResume, ACallbackThatRefusesForgetsItsPart) {
  const TempFolder folder;
  const CheckpointConfig config{.folder = folder.path()};
  LateRefusing callback;
  Small({0.1}).fit(1, config, {}, &callback);
  callback.value = 3;
  EXPECT_THROW(Small({0.1}).fit(2, config, folder.path(), &callback), Broken);
  EXPECT_EQ(callback.value, 3);
}

TEST(StopOnDivergence, LoadsAllOrNothing) {
  StopOnDivergence guard;
  io::Checkpoint whole;
  whole.values["divergence"] = {{"lowest", 2.0}, {"in_a_row", std::int64_t{3}}};
  guard.load(whole);
  io::Checkpoint part;
  part.values["divergence"] = {{"lowest", 1.0}};
  EXPECT_THROW(guard.load(part), FileError);
  io::Checkpoint after;
  guard.save(after);
  EXPECT_EQ(after.values, whole.values);
}

// The same number of batches, with another number of images.
TEST(FitResume, RefusesAnotherNumberOfImages) {
  const TempFolder folder;
  const CheckpointConfig config{.folder = folder.path()};
  Small({0.1}).fit(1, config);
  Small other({0.1});
  const auto more = data::open_digits(data::Split::kTrain, 9);
  data::DataLoader loader(*more, {.batch_size = 4, .drop_remainder = true, .seed = 5});
  EXPECT_THAT(
      message_of<ArgumentError>([&] { other.model.fit(2, loader, {.resume = folder.path()}); }),
      HasSubstr("images 8, now it is 9"));
}

}  // namespace
}  // namespace mezzo::train
