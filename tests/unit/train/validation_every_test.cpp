// Tests evaluations within an epoch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/core/random.h"
#include "mezzo/train/model_checkpoint.h"
#include "tests/unit/data/temp_folder.h"
#include "tests/unit/io/checkpoint_sample.h"
#include "tests/unit/message_of.h"
#include "tests/unit/train/small_training.h"

namespace mezzo::train {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Two epochs of four steps.
constexpr std::int64_t kBatch = 2;

std::vector<std::vector<float>> parameters_of(const nn::Module& net) {
  std::vector<std::vector<float>> values;
  for (const NamedTensor& entry : net.state()) {
    if (is_floating(entry.tensor.dtype())) values.push_back(entry.tensor.to_vector<float>());
  }
  return values;
}

TEST(ValidationEvery, EvaluatesBetweenTheEndsOfEpochs) {
  Small small({10, 11, 12, 13, 14, 15}, true, kBatch);
  std::vector<std::int64_t> steps;
  std::vector<double> scores;
  std::vector<bool> flags;
  LambdaCallback watch(
      {.on_step_evaluated =
           [&](FitState& state) {
             steps.push_back(state.step);
             scores.push_back(state.metrics.at("score"));
             EXPECT_TRUE(state.model.net().is_training());
           },
       .after_step = [&](FitState& state) { flags.push_back(state.step_is_evaluated); },
       .on_epoch_end = [&](FitState& state) { scores.push_back(state.metrics.at("score")); }});
  small.model.fit(2, small.loader,
                  {.callbacks = {&watch}, .validation = &small.test_loader, .validation_every = 2});
  EXPECT_THAT(steps, ElementsAre(2, 6));  // epochs end with steps 4 and 8
  EXPECT_THAT(scores, ElementsAre(10, 11, 12, 13));
  EXPECT_THAT(flags, ElementsAre(false, true, false, false, false, true, false, false));
}

TEST(ValidationEvery, LeavesTheTrainingAsItWas) {
  const auto trained = [](std::int64_t every) {
    manual_seed(3);
    Small small(std::vector<double>(20, 0.5), true, kBatch);
    small.model.fit(2, small.loader, {.validation = &small.test_loader, .validation_every = every});
    return parameters_of(small.net);
  };
  EXPECT_EQ(trained(0), trained(1));
}

TEST(ValidationEvery, TheBestOfAllIsKept) {
  const data::TempFolder folder;
  Small small({5, 6, 2, 4}, true, kBatch);
  ModelCheckpoint checkpoints({.folder = folder.path(), .best = "score"});
  small.model.fit(
      2, small.loader,
      {.callbacks = {&checkpoints}, .validation = &small.test_loader, .validation_every = 2});
  EXPECT_EQ(checkpoints.best(), 2);
  EXPECT_THAT(io::names_in(folder.path("best")), ElementsAre(testing::EndsWith("-step-6")));
}

TEST(ValidationEvery, MustNotBeNegative) {
  Small small({1});
  EXPECT_THAT(message_of<ArgumentError>(
                  [&] { small.model.fit(1, small.loader, {.validation_every = -1}); }),
              HasSubstr("validation_every must not be negative: -1"));
}

}  // namespace
}  // namespace mezzo::train
