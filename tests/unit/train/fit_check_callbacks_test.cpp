// Tests what callbacks, including ModelCheckpoint, find before the first step of fit().
#include <filesystem>
#include <optional>
#include <string>

#include <gmock/gmock.h>

#include "mezzo/train/model_checkpoint.h"
#include "tests/unit/data/temp_folder.h"
#include "tests/unit/io/checkpoint_sample.h"
#include "tests/unit/train/checked_fit.h"

namespace mezzo::train {
namespace {

using data::TempFolder;
using testing::HasSubstr;

// What a callback finds is reported before any of them has begun.
TEST(FitCheck, ACallbackThatCannotWork) {
  nn::Linear net(2, 3);
  CheckedFit training(net);
  data::TensorBatches loader = rows_in_classes(32, {.batch_size = 16});
  bool has_begun = false;
  FitState seen{.model = training.model};
  LambdaCallback first({.on_train_begin = [&](FitState&) { has_begun = true; }});
  LambdaCallback second({.check = [&](FitState& state) {
    seen.total_steps = state.total_steps;
    seen.steps_per_epoch = state.steps_per_epoch;
    fail("second", "cannot work. Leave it out");
  }});
  EXPECT_THAT(training.refusal(loader, {.callbacks = {&first, &second}}),
              HasSubstr("[second] cannot work"));
  EXPECT_FALSE(has_begun);
  EXPECT_EQ(seen.total_steps, 4);
  EXPECT_EQ(seen.steps_per_epoch, 2);
}

// A refused training leaves no folder behind, whatever the reason.
TEST(FitCheck, NoFolderIsMadeForWhatIsRefused) {
  const TempFolder folder;
  const std::string path = folder.path("new/run");
  nn::Linear net(2, 3);
  CheckedFit training(net);
  data::TensorBatches loader = rows_in_classes(32, {.batch_size = 16});
  data::TensorBatches bad(randn({8, 2}), randn({8, 1}));
  ModelCheckpoint checkpoints({.folder = path, .best = "loss"});
  EXPECT_THAT(training.refusal(loader, {.callbacks = {&checkpoints}, .validation = &bad}),
              HasSubstr("This is the first batch of the validation"));
  EXPECT_THAT(training.refusal(loader, {.callbacks = {&checkpoints}}),
              HasSubstr("there is no best `loss` without a validation"));
  EXPECT_THAT(io::names_in(folder.path()), testing::IsEmpty());
  training.model.fit(1, loader, {.callbacks = {&checkpoints}, .validation = &loader});
  EXPECT_TRUE(std::filesystem::is_directory(path + "/best"));
}

TEST(FitCheck, AFolderThatCannotBeMade) {
  const TempFolder folder;
  folder.write("file", {1});
  folder.write("run/best", {1});
  nn::Linear net(2, 3);
  CheckedFit training(net);
  data::TensorBatches loader = rows_in_classes(32, {.batch_size = 16});
  for (const char* name : {"file", "file/run", "run"}) {
    ModelCheckpoint checkpoints({.folder = folder.path(name), .best = "loss"});
    EXPECT_THAT(training.refusal(loader, {.callbacks = {&checkpoints}, .validation = &loader}),
                HasSubstr(folder.path(name)));
  }
}

// The first checkpoint may be hours away.
TEST(FitCheck, ACallbackWhoseStateNoCheckpointHolds) {
  class Odd final : public Callback {
   public:
    void save(io::Checkpoint& checkpoint) const override {
      checkpoint.values[section("odd")]["text"] = std::string("\xff");
    }
  };
  const TempFolder folder;
  nn::Linear net(2, 3);
  CheckedFit training(net);
  data::TensorBatches loader = rows_in_classes(32, {.batch_size = 16});
  ModelCheckpoint checkpoints({.folder = folder.path("run")});
  Odd odd;
  EXPECT_THAT(training.refusal(loader, {.callbacks = {&checkpoints, &odd}}),
              HasSubstr("[checkpoint]"));
}

// An average of parameters, which exists once a training has begun.
class Average final : public Callback {
 public:
  void on_train_begin(FitState& state) override {
    if (!mean_.has_value()) mean_ = copy_of(state.model.net().parameters()[0]);
  }
  void save(io::Checkpoint& checkpoint) const override {
    checkpoint.groups.push_back({"average", {{"w", mean_.value()}}});
  }
  void load(const io::Checkpoint& checkpoint) override {
    mean_ = checkpoint.tensors("average")[0].tensor;
  }

 private:
  std::optional<Tensor> mean_;
};

TEST(FitCheck, ACallbackThatBeginsWithoutState) {
  const TempFolder folder;
  for (const std::int64_t epochs : {1, 2}) {
    nn::Linear net(2, 3);
    CheckedFit training(net);
    data::TensorBatches loader = rows_in_classes(32, {.batch_size = 16});
    ModelCheckpoint checkpoints({.folder = folder.path("run")});
    Average average;
    const FitResult result = training.model.fit(
        epochs, loader, {.callbacks = {&average, &checkpoints}, .resume = folder.path("run")});
    EXPECT_EQ(result.steps, 2 * epochs);
  }
}

TEST(FitCheck, WhatACallbackFindsAfterAllHaveBegun) {
  nn::Linear net(2, 3);
  CheckedFit training(net);
  data::TensorBatches loader = rows_in_classes(32, {.batch_size = 16});
  bool has_begun = false;
  LambdaCallback first({.after_train_begin = [&](FitState&) {
    EXPECT_TRUE(has_begun);
    fail("first", "cannot work. Leave it out");
  }});
  LambdaCallback second({.on_train_begin = [&](FitState&) { has_begun = true; }});
  EXPECT_THAT(training.refusal(loader, {.callbacks = {&first, &second}}),
              HasSubstr("[first] cannot work"));
}

// Includes a resumed training; a finished one has nothing to check.
TEST(FitCheck, ATrainingThatGoesOn) {
  const TempFolder folder;
  const auto fit = [&](std::int64_t epochs, data::BatchSource* validation, std::int64_t& steps) {
    nn::Linear net(2, 3);
    CheckedFit training(net);
    data::TensorBatches loader = rows_in_classes(32, {.batch_size = 16});
    ModelCheckpoint checkpoints({.folder = folder.path("run")});
    try {
      training.model.fit(epochs, loader,
                         {.callbacks = {&checkpoints, &training.count},
                          .validation = validation,
                          .resume = folder.path("run")});
    } catch (...) {
      steps = training.steps;
      throw;
    }
    steps = training.steps;
  };
  std::int64_t steps = 0;
  data::TensorBatches bad(randn({8, 2}), randn({8, 1}));
  fit(1, nullptr, steps);
  EXPECT_EQ(steps, 2);
  EXPECT_THAT(message_of<ArgumentError>([&] { fit(2, &bad, steps); }),
              HasSubstr("This is the first batch of the validation"));
  EXPECT_EQ(steps, 0);
  EXPECT_NO_THROW(fit(1, &bad, steps));
}

}  // namespace
}  // namespace mezzo::train
