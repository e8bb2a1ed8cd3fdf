// Tests ModelCheckpoint: which checkpoints exist, and what it remembers.
#include "mezzo/train/model_checkpoint.h"

#include <cerrno>
#include <filesystem>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/io/file_calls.h"
#include "mezzo/train/checkpointing.h"
#include "tests/unit/data/temp_folder.h"
#include "tests/unit/io/checkpoint_sample.h"
#include "tests/unit/message_of.h"
#include "tests/unit/train/small_training.h"

namespace mezzo::train {
namespace {

using data::TempFolder;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(ModelCheckpoint, KeepsTheBestEpochBesideTheNewest) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  struct Case {
    std::vector<double> scores;
    bool low;
  };
  // Epochs 2, 3 and 5 are better than all before.
  for (const Case& c : {Case{{nan, 0.1, 0.5, nan, 0.6, 0.6, 0.2}, false},
                        Case{{nan, 5, 3, nan, 2.5, 2.5, 6}, true}}) {
    const TempFolder folder;
    Small small(c.scores, c.low);
    small.fit(7, {.folder = folder.path(), .keep = 2, .best = "score"});
    EXPECT_THAT(io::names_in(folder.path()),
                ElementsAre("000006-step-12", "000007-step-14", "best"));
    EXPECT_THAT(io::names_in(folder.path("best")), ElementsAre("000003-step-10"));
    EXPECT_EQ(io::read_latest_checkpoint(folder.path("best")).checkpoint.score, c.scores[4]);
  }
}

// For any name that make_metric() accepts.
TEST(ModelCheckpoint, KnowsTheBestByAnotherNameOfItsMetric) {
  const TempFolder folder;
  Small small({0.1});
  small.model.add_metric(make_metric("accuracy"));
  ModelCheckpoint checkpoints({.folder = folder.path(), .best = "acc"});
  const FitOptions options{.callbacks = {&checkpoints}, .validation = &small.test_loader};
  const double accuracy = small.model.fit(1, small.loader, options).metrics.at("accuracy");
  EXPECT_EQ(checkpoints.best(), accuracy);
  ModelCheckpoint resumed({.folder = folder.path(), .best = "top1"});
  resumed.load(io::read_latest_checkpoint(folder.path()).checkpoint);
  EXPECT_EQ(resumed.best(), accuracy);
}

// Two networks in one folder, each with its own checkpoints and best one.
TEST(ModelCheckpoint, KeepsPrefixesApart) {
  const TempFolder folder;
  const auto fit = [&](const char* prefix, const std::vector<double>& scores, std::int64_t epochs) {
    Small(scores).fit(epochs,
                      {.folder = folder.path(), .keep = 1, .best = "score", .prefix = prefix},
                      folder.path(prefix));
  };
  fit("net", {0.9, 0.1}, 2);
  fit("other", {0.1}, 1);
  fit("net", {0.5}, 3);
  EXPECT_THAT(io::names_in(folder.path()),
              ElementsAre("best", "net-000003-step-6", "other-000001-step-2"));
  EXPECT_THAT(io::names_in(folder.path("best")),
              ElementsAre("net-000001-step-2", "other-000001-step-2"));
  for (const char* series : {"net", "best/net", "net-000003-step-6"}) {
    EXPECT_EQ(read_weights(folder.path(series)).size(), test::StatefulNet().state().size());
  }
  // Another run with that prefix would remove them.
  EXPECT_THAT(message_of<ArgumentError>(
                  [&] { Small({0.1}).fit(1, {.folder = folder.path(), .prefix = "net"}); }),
              HasSubstr("holds checkpoints of another run"));
  for (const char* prefix : {"a/b", "best", ".x"}) {
    EXPECT_THROW(ModelCheckpoint({.folder = folder.path(), .prefix = prefix}), ArgumentError);
  }
}

TEST(ModelCheckpoint, WritesNothingAnewOfATrainingThatIsDone) {
  const TempFolder folder;
  const CheckpointConfig config{.folder = folder.path()};
  for (int i = 0; i < 2; ++i) {
    Small({0.1, 0.2}).fit(2, config, folder.path());
    EXPECT_THAT(io::names_in(folder.path()), ElementsAre("000001-step-2", "000002-step-4"));
  }
}

TEST(ModelCheckpoint, RemembersTheBestAfterAResume) {
  const TempFolder folder;
  const CheckpointConfig config{.folder = folder.path(), .best = "score"};
  Small({0.1, 0.9, 0.3}).fit(3, config, folder.path());
  Small({0.5, 0.8}).fit(5, config, folder.path());
  EXPECT_THAT(io::names_in(folder.path("best")), ElementsAre("000002-step-4"));
  Small({0.95}).fit(6, config, folder.path());
  EXPECT_THAT(io::names_in(folder.path("best")), ElementsAre("000003-step-12"));
}

// A part of the training that keeps no best checkpoint does not remember it, but the checkpoint
// does.
TEST(ModelCheckpoint, KnowsTheBestThatIsKept) {
  const TempFolder folder;
  const CheckpointConfig config{.folder = folder.path(), .best = "score"};
  Small({0.1, 0.9}).fit(2, config, folder.path());
  Small({0.5}).fit(3, {.folder = folder.path()}, folder.path());
  Small({0.6, 0.7}).fit(5, config, folder.path());
  EXPECT_THAT(io::names_in(folder.path("best")), ElementsAre("000002-step-4"));
  Small({0.95}).fit(6, config, folder.path());
  EXPECT_THAT(io::names_in(folder.path("best")), ElementsAre("000003-step-12"));
  EXPECT_EQ(io::list_checkpoints(folder.path("best")).front().score, 0.95);
}

// Its score says nothing about another metric.
TEST(ModelCheckpoint, ABestOneByAnotherMetricIsReplaced) {
  const TempFolder folder;
  Small({0.9}).fit(1, {.folder = folder.path(), .best = "score"});
  Small small({0.1});
  small.model.add_metric(make_metric("accuracy"));
  ModelCheckpoint checkpoints({.folder = folder.path(), .best = "accuracy"});
  const FitOptions options{
      .callbacks = {&checkpoints}, .validation = &small.test_loader, .resume = folder.path()};
  const double accuracy = small.model.fit(2, small.loader, options).metrics.at("accuracy");
  EXPECT_EQ(checkpoints.best(), accuracy);
  EXPECT_EQ(io::list_checkpoints(folder.path("best")).front().step, 4);
}

TEST(ModelCheckpoint, WritesEverySoManyStepsOrEpochsAndAtTheEnd) {
  const auto names = [](const CheckpointConfig& config, const TempFolder& folder) {
    Small(std::vector<double>(7)).fit(7, config);
    return io::names_in(folder.path());
  };
  const TempFolder a;
  EXPECT_THAT(names({.folder = a.path(), .every_epochs = 2, .keep = 2}, a),
              ElementsAre("000003-step-12", "000004-step-14"));
  const TempFolder b;
  EXPECT_THAT(names({.folder = b.path(), .every_steps = 5, .keep = 0}, b),
              ElementsAre("000001-step-5", "000002-step-10", "000003-step-14"));
}

// They would be removed, one after the other.
TEST(ModelCheckpoint, LeavesCheckpointsOfAnotherTrainingAlone) {
  const TempFolder folder;
  const CheckpointConfig config{.folder = folder.path(), .best = "score"};
  Small({0.1, 0.9}).fit(2, config);
  EXPECT_THAT(message_of<ArgumentError>([&] { Small({0.5}).fit(1, config); }),
              HasSubstr("holds checkpoints of another run"));
  EXPECT_THAT(io::names_in(folder.path("best")), ElementsAre("000002-step-4"));
  // Even if only the best one is left.
  for (const io::CheckpointInfo& info : io::list_checkpoints(folder.path())) {
    std::filesystem::remove_all(info.path);
  }
  EXPECT_THAT(message_of<ArgumentError>([&] { Small({0.5}).fit(1, config); }),
              HasSubstr("best holds checkpoints of another run"));
}

// The check comes before an epoch that would be lost. A finished training has nothing to write.
TEST(ModelCheckpoint, AsksBeforeItTrainsWhetherItsFolderCanBeWritten) {
  const TempFolder folder;
  const CheckpointConfig config{.folder = folder.path()};
  Small({0.1}).fit(1, config);
  std::int64_t steps = 0;
  LambdaCallback count({.on_step_end = [&](FitState&) { ++steps; }});
  io::set_file_call_hook(
      [](const io::FileCallInfo& info) { return info.call == io::FileCall::kCreate ? EROFS : 0; });
  const std::string message =
      message_of<FileError>([&] { Small({0.2}).fit(2, config, folder.path(), &count); });
  EXPECT_NO_THROW(Small({0.2}).fit(1, config, folder.path(), &count));
  io::set_file_call_hook({});
  EXPECT_THAT(message, HasSubstr("Read-only file system. Write to another folder"));
  EXPECT_EQ(steps, 0);
}

TEST(ModelCheckpoint, TwoTrainingsOfOneCallbackFollowEachOther) {
  const TempFolder folder;
  Small small({0.1, 0.2});
  ModelCheckpoint checkpoints({.folder = folder.path()});
  for (int i = 0; i < 2; ++i) {
    EXPECT_NO_THROW(small.model.fit(1, small.loader, {.callbacks = {&checkpoints}}));
  }
}

TEST(ModelCheckpoint, RefusesWhatItCannotDo) {
  EXPECT_THROW(ModelCheckpoint({}), ArgumentError);
  EXPECT_THROW(ModelCheckpoint({.folder = "x", .every_epochs = 0}), ArgumentError);
  EXPECT_THROW(ModelCheckpoint({.folder = "x", .keep = -1}), ArgumentError);
  const TempFolder folder;
  Small small({});
  EXPECT_THAT(message_of<ArgumentError>(
                  [&] { small.fit(1, {.folder = folder.path(), .best = "acuracy"}); }),
              HasSubstr("no metric `acuracy`"));
  ModelCheckpoint checkpoints({.folder = folder.path(), .best = "score"});
  EXPECT_THAT(message_of<ArgumentError>(
                  [&] { small.model.fit(1, small.loader, {.callbacks = {&checkpoints}}); }),
              HasSubstr("without a validation"));
  EXPECT_THAT(io::names_in(folder.path()), ElementsAre());
}

// It may have been loaded although no training has begun.
TEST(ModelCheckpoint, SavesWhatItLoaded) {
  ModelCheckpoint checkpoints({.folder = "x", .best = "acc"});
  io::Checkpoint checkpoint;
  checkpoint.values["best"]["accuracy"] = 0.5;
  checkpoints.load(checkpoint);
  io::Checkpoint saved;
  checkpoints.save(saved);
  checkpoints.load({});
  EXPECT_EQ(checkpoints.best(), std::nullopt);
  checkpoints.load(saved);
  EXPECT_EQ(checkpoints.best(), 0.5);
}

}  // namespace
}  // namespace mezzo::train
