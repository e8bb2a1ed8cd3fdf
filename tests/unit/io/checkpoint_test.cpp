#include "mezzo/io/checkpoint.h"

#include <cmath>
#include <thread>

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "mezzo/core/error.h"
#include "mezzo/io/checkpoint_folder.h"
#include "mezzo/io/safetensors.h"
#include "tests/unit/data/temp_folder.h"
#include "tests/unit/io/checkpoint_sample.h"

namespace mezzo::io {
namespace {

using data::TempFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Writes checkpoints of these steps and returns the remaining ones.
std::vector<std::string> left_after(const std::string& folder,
                                    std::initializer_list<std::int64_t> steps,
                                    const CheckpointOptions& options) {
  for (const std::int64_t step : steps) write_checkpoint(folder, {.step = step}, options);
  return names_in(folder);
}

std::string write_scored(const std::string& folder, std::int64_t step, double score,
                         const CheckpointOptions& options) {
  return write_checkpoint(folder, {.step = step, .score = score}, options);
}

TEST(Checkpoint, ComesBackBitForBit) {
  const TempFolder folder;
  const Checkpoint written = sample_checkpoint(42);
  const std::string path = write_checkpoint(folder.path("a/b/"), written);
  EXPECT_EQ(path, folder.path("a/b/000001-step-42"));
  EXPECT_THAT(names_in(path),
              ElementsAre("manifest.json", "model.safetensors", "optimizer_2.safetensors"));
  const Checkpoint read = read_checkpoint(path);
  EXPECT_TRUE(same_checkpoint(read, written));
  EXPECT_EQ(read.score, std::nullopt);
  // -0.0 == 0.0, so the sign is checked explicitly.
  EXPECT_TRUE(std::signbit(read.value<double>("values", "minus_zero")));
  const FoundCheckpoint found = read_latest_checkpoint(folder.path("a/b"));
  EXPECT_TRUE(same_checkpoint(found.checkpoint, written));
  EXPECT_EQ(found.path, path);
  EXPECT_THAT(found.damaged, IsEmpty());
}

TEST(Checkpoint, NumbersWithoutDigitsComeBack) {
  const TempFolder folder;
  Checkpoint written{.score = -std::numeric_limits<double>::infinity()};
  written.values["a"] = {{"nan", std::nan("")}, {"inf", HUGE_VAL}};
  const Checkpoint read = read_checkpoint(write_checkpoint(folder.path(), written));
  EXPECT_EQ(read.score, written.score);
  EXPECT_TRUE(std::isnan(read.value<double>("a", "nan")));
  EXPECT_EQ(read.value<double>("a", "inf"), HUGE_VAL);
}

TEST(Checkpoint, TensorFilesAreOrdinarySafetensors) {
  const TempFolder folder;
  const std::string path = write_checkpoint(folder.path(), sample_checkpoint(1));
  const SafetensorsFile file = read_safetensors(path + "/model.safetensors");
  ASSERT_EQ(file.tensors.size(), 3U);
  EXPECT_EQ(file.tensors[0].name, "a.steps");  // wide dtypes first
  EXPECT_EQ(file.metadata, default_safetensors_metadata());
}

TEST(Checkpoint, LayoutsBecomeRowMajor) {
  const TempFolder folder;
  const Shape shape = {2, 3, 2, 2};
  const Tensor weight = alias(arange(24), shape, strides_for(shape, Format::kChannelsLast), 0);
  const std::string path = write_checkpoint(folder.path(), {.groups = {{"m", {{"w", weight}}}}});
  const Tensor read = read_checkpoint(path).tensors("m")[0].tensor;
  EXPECT_TRUE(read.is_dense());
  EXPECT_EQ(read.to_vector<float>(), weight.to_vector<float>());
}

TEST(Checkpoint, WhatIsMissingIsNamed) {
  const Checkpoint checkpoint = sample_checkpoint(3);
  EXPECT_EQ(checkpoint.tensors("model").size(), 3U);
  EXPECT_EQ(checkpoint.random_position("loader"), (RandomPosition{1, 2}));
  EXPECT_EQ(checkpoint.value<std::int64_t>("counters", "step"), 3);
  EXPECT_TRUE(checkpoint.value<bool>("values", "yes"));
  EXPECT_EQ(checkpoint.value<std::string>("values", "text").substr(0, 4), "line");
  const auto error = [](const auto& action) { return message_of<FileError>(action); };
  EXPECT_EQ(error([&] { static_cast<void>(checkpoint.tensors("ema")); }),
            "[checkpoint] the checkpoint has no group of tensors 'ema'. Use one that this program "
            "wrote");
  EXPECT_THAT(error([&] { static_cast<void>(checkpoint.random_position("x")); }),
              HasSubstr("has no random stream 'x'"));
  EXPECT_THAT(error([&] { static_cast<void>(checkpoint.value<bool>("x", "y")); }),
              HasSubstr("has no section 'x'"));
  EXPECT_THAT(error([&] { static_cast<void>(checkpoint.value<bool>("values", "y")); }),
              HasSubstr("has no values value 'y'"));
  EXPECT_THAT(error([&] { static_cast<void>(checkpoint.value<bool>("values", "one")); }),
              HasSubstr("the checkpoint's values value 'one' is of another type"));
}

TEST(Checkpoint, RefusesWhatCannotBeWritten) {
  const TempFolder folder;
  const auto refuses = [&](const Checkpoint& checkpoint, const std::string& message) {
    EXPECT_THAT(message_of<ArgumentError>([&] { write_checkpoint(folder.path("x"), checkpoint); }),
                HasSubstr(message));
    EXPECT_THAT(message_of<ArgumentError>([&] { check_checkpoint(checkpoint); }),
                HasSubstr(message));
  };
  EXPECT_NO_THROW(check_checkpoint({.groups = {{"a", {{"t", Tensor(ones({2}))}}}, {"b"}}}));
  refuses({.step = -1}, "step is -1");
  refuses({.groups = {{"../x"}}}, "called '../x'");
  refuses({.groups = {{""}}}, "called ''");
  refuses({.groups = {{"Model"}}}, "lower-case");
  refuses({.groups = {{std::string(65, 'x')}}}, "Use 1 to 64");
  refuses({.groups = {{"a"}, {"a"}}}, "two groups of tensors are called 'a'");
  refuses({.groups = {{"a", {{"t", Tensor()}}}}}, "undefined");
  refuses({.random = {{"\xff", {}}}}, "not UTF-8");
  refuses({.values = {{"\xff", {}}}}, "not UTF-8");
  refuses({.values = {{"a", {{"\xff", true}}}}}, "not UTF-8");
  refuses({.values = {{"a", {{"b", std::string("\xff")}}}}}, "the text 'b' is not UTF-8");
  EXPECT_THAT(names_in(folder.path("x")), IsEmpty());
  EXPECT_NO_THROW(write_checkpoint(folder.path("x"), {.groups = {{std::string(64, 'x')}}}));
  EXPECT_THAT(message_of<ArgumentError>([&] { write_checkpoint(folder.path(), {}, {.keep = -1}); }),
              HasSubstr("keep is -1"));
  EXPECT_THAT(message_of<FileError>([] { write_checkpoint("/proc/none", {}); }),
              HasSubstr("[checkpoint] /proc/none: cannot be created"));
}

TEST(Checkpoint, TheNewestStay) {
  const TempFolder folder;
  EXPECT_THAT(left_after(folder.path(), {10, 20, 30}, {.keep = 2}),
              ElementsAre("000002-step-20", "000003-step-30"));
  EXPECT_THAT(left_after(folder.path(), {40, 50}, {.keep = 0}),
              ElementsAre("000002-step-20", "000003-step-30", "000004-step-40", "000005-step-50"));
  EXPECT_THAT(left_after(folder.path(), {60}, {.keep = 1}), ElementsAre("000006-step-60"));
}

// A run that went back to an earlier step resumes from what it wrote last.
TEST(Checkpoint, NewestMeansWrittenLast) {
  const TempFolder folder;
  EXPECT_THAT(left_after(folder.path(), {500, 450, 450}, {.keep = 2}),
              ElementsAre("000002-step-450", "000003-step-450"));
  left_after(folder.path(), {400}, {});
  EXPECT_EQ(read_latest_checkpoint(folder.path()).checkpoint.step, 400);
}

TEST(Checkpoint, TheBestStays) {
  const TempFolder high;
  const CheckpointOptions highest{.keep = 1, .keep_best = KeepBest::kHighest};
  for (const double score : {0.5, 0.9, std::nan(""), 0.9, 0.7}) {
    write_scored(high.path(), 1, score, highest);
  }
  EXPECT_THAT(names_in(high.path()), ElementsAre("000002-step-1", "000005-step-1"));
  EXPECT_EQ(read_best_checkpoint(high.path(), KeepBest::kHighest).path, high.path("000002-step-1"));
  // A first checkpoint with a NaN score is not the best, either.
  const TempFolder late;
  for (const double score : {std::nan(""), 0.5}) write_scored(late.path(), 1, score, highest);
  EXPECT_THAT(names_in(late.path()), ElementsAre("000002-step-1"));
  // A checkpoint without a score is never the best.
  write_checkpoint(high.path(), {}, highest);
  EXPECT_THAT(names_in(high.path()), ElementsAre("000002-step-1", "000006-step-0"));

  const TempFolder low;
  const CheckpointOptions lowest{.keep = 1, .keep_best = KeepBest::kLowest};
  for (const double score : {3.0, 1.0, 2.0}) write_scored(low.path(), 1, score, lowest);
  EXPECT_THAT(names_in(low.path()), ElementsAre("000002-step-1", "000003-step-1"));
  EXPECT_EQ(read_best_checkpoint(low.path(), KeepBest::kLowest).checkpoint.score, 1.0);
  EXPECT_EQ(read_best_checkpoint(low.path(), KeepBest::kHighest).checkpoint.score, 2.0);
}

TEST(Checkpoint, FoldersAreListedNewestFirst) {
  const TempFolder folder;
  EXPECT_THAT(list_checkpoints(folder.path("none")), IsEmpty());
  EXPECT_THAT(list_checkpoints(folder.path()), IsEmpty());
  write_scored(folder.path(), 10, 0.5, {});
  const std::string damaged = write_checkpoint(folder.path(), {.step = 20});
  std::filesystem::remove(damaged + "/manifest.json");
  const std::vector<CheckpointInfo> infos = list_checkpoints(folder.path());
  ASSERT_EQ(infos.size(), 2U);
  EXPECT_EQ(infos[0].path, damaged);
  EXPECT_EQ(infos[0].number, 2);
  EXPECT_EQ(infos[0].step, 20);
  EXPECT_THAT(infos[0].problem, HasSubstr("manifest.json: cannot be opened: No such file"));
  EXPECT_EQ(infos[1].score, 0.5);
  EXPECT_EQ(infos[1].problem, "");
  folder.write("file", {});
  EXPECT_THAT(message_of<FileError>([&] { list_checkpoints(folder.path("file")); }),
              HasSubstr("file: cannot be read: Not a directory"));
}

// Series are counted, kept and read separately; `FOLDER/PREFIX` names one unless it is a folder.
TEST(Checkpoint, PrefixesTellSeriesInOneFolderApart) {
  const TempFolder folder;
  for (const std::int64_t step : {1, 2, 3}) {
    for (const char* prefix : {"", "net", "net-1", "a.b_C-step-7"}) {
      Checkpoint checkpoint{.step = step};
      checkpoint.values["of"]["prefix"] = std::string(prefix);
      write_checkpoint(folder.path(), checkpoint, {.keep = 2, .prefix = prefix});
    }
  }
  EXPECT_THAT(names_in(folder.path()),
              ElementsAre("000002-step-2", "000003-step-3", "a.b_C-step-7-000002-step-2",
                          "a.b_C-step-7-000003-step-3", "net-000002-step-2", "net-000003-step-3",
                          "net-1-000002-step-2", "net-1-000003-step-3"));
  for (const char* prefix : {"", "net", "net-1", "a.b_C-step-7"}) {
    const std::string series = checkpoint_series(folder.path(), prefix);
    EXPECT_EQ(list_checkpoints(series).size(), 2U) << prefix;
    const Checkpoint last = read_latest_checkpoint(series).checkpoint;
    EXPECT_EQ(last.value<std::string>("of", "prefix"), prefix);
    EXPECT_EQ(last.step, 3);
  }
  EXPECT_THAT(list_checkpoints(folder.path("ne")), IsEmpty());
  EXPECT_THAT(list_checkpoints(folder.path("none/net")), IsEmpty());
}

TEST(Checkpoint, PrefixesAreCheckedBeforeAnythingIsWritten) {
  const TempFolder folder;
  for (const std::string& prefix : {std::string("a/b"), std::string(".hidden"), std::string("a b"),
                                    std::string("\n"), std::string(65, 'x')}) {
    EXPECT_THROW(write_checkpoint(folder.path(), {}, {.prefix = prefix}), ArgumentError);
  }
  std::filesystem::create_directory(folder.path("taken"));
  EXPECT_THAT(
      message_of<ArgumentError>([&] { write_checkpoint(folder.path(), {}, {.prefix = "taken"}); }),
      HasSubstr("is also the name of a folder"));
  EXPECT_THAT(names_in(folder.path()), ElementsAre("taken"));
}

TEST(Checkpoint, WithoutOneReadingSaysSo) {
  const TempFolder folder;
  EXPECT_EQ(message_of<FileError>([&] { read_latest_checkpoint(folder.path()); }),
            "[checkpoint] " + folder.path() + ": there is no checkpoint in it. Check the path");
  write_checkpoint(folder.path(), {});
  EXPECT_THAT(
      message_of<FileError>([&] { read_best_checkpoint(folder.path(), KeepBest::kLowest); }),
      HasSubstr("it has no intact checkpoint with a score"));
  EXPECT_THROW(read_best_checkpoint(folder.path(), KeepBest::kNone), ArgumentError);
}

TEST(Checkpoint, OtherFilesAreNeverTouched) {
  const TempFolder folder;
  const std::string first = write_checkpoint(folder.path(), sample_checkpoint(1));
  // A note inside a checkpoint, and names that are nearly those of checkpoints.
  const std::vector<std::string> others = {
      "000001-step-1/notes.txt", "notes.txt",        "1-step-1/x",
      "000002-step-x/x",         "000009-step-01/x", "000009-step-1.bak/x",
      "-00001-step-1/x",         "000007-step-7",    "000008-step-8.tmp"};
  for (const std::string& name : others) folder.write(name, {7});
  std::filesystem::create_symlink(folder.path("1-step-1"), folder.path("000010-step-1"));
  CaughtLog log;
  const std::string second = write_checkpoint(folder.path(), sample_checkpoint(2), {.keep = 1});
  ASSERT_EQ(log.lines.size(), 1U);
  EXPECT_THAT(log.lines[0], HasSubstr("cannot be removed: Directory not empty"));
  EXPECT_EQ(second, folder.path("000002-step-2"));
  for (const std::string& name : others) {
    EXPECT_EQ(TempFolder::read(folder.path(name)), data::Bytes({7})) << name;
  }
  EXPECT_TRUE(std::filesystem::is_symlink(folder.path("000010-step-1")));
  // Only the note of the old checkpoint stays.
  EXPECT_THAT(names_in(first), ElementsAre("notes.txt"));
}

TEST(Checkpoint, WhatDeadProcessesLeftIsRemoved) {
  const TempFolder folder;
  folder.write("000004-step-9.tmp/model.safetensors", {1});
  folder.write("000004-step-9.tmp/manifest.json", {1});
  folder.write("000005-step-9.tmp/model.safetensors", {1});
  folder.write("000005-step-9.tmp/notes.txt", {1});
  write_checkpoint(folder.path(), {.step = 10});
  EXPECT_THAT(names_in(folder.path()), ElementsAre("000005-step-9.tmp", "000006-step-10"));
  EXPECT_THAT(names_in(folder.path("000005-step-9.tmp")), ElementsAre("notes.txt"));
}

TEST(Checkpoint, OneWriterAtATime) {
  const TempFolder folder;
  write_checkpoint(folder.path(), {.step = 1});
  {
    const FolderLock lock(folder.path());
    EXPECT_TRUE(lock.is_held());
    EXPECT_EQ(
        message_of<FileError>([&] { write_checkpoint(folder.path(), {.step = 2}); }),
        "[checkpoint] " + folder.path() +
            ": another process is writing a checkpoint into it. Give each run its own folder");
    EXPECT_EQ(read_latest_checkpoint(folder.path()).checkpoint.step, 1);
  }
  write_checkpoint(folder.path(), {.step = 2});
  EXPECT_EQ(read_latest_checkpoint(folder.path()).checkpoint.step, 2);
}

// A reader finds a complete checkpoint while a run writes, and never an older one than before.
TEST(Checkpoint, ReadersFollowAWriter) {
  const TempFolder folder;
  write_checkpoint(folder.path(), sample_checkpoint(0));
  std::jthread writer([&] {
    for (std::int64_t step = 1; step <= 40; ++step) {
      write_checkpoint(folder.path(), sample_checkpoint(step), {.keep = 1});
    }
  });
  std::int64_t last = 0;
  while (last < 40) {
    const FoundCheckpoint found = read_latest_checkpoint(folder.path());
    ASSERT_TRUE(same_checkpoint(found.checkpoint, sample_checkpoint(found.checkpoint.step)));
    ASSERT_GE(found.checkpoint.step, last);
    ASSERT_THAT(found.damaged, IsEmpty());
    last = found.checkpoint.step;
  }
}

// The best one is the newest here, and the previous one is removed immediately.
TEST(Checkpoint, ReadersOfTheBestFollowAWriter) {
  const TempFolder folder;
  const auto write = [&](std::int64_t step) {
    Checkpoint checkpoint = sample_checkpoint(step);
    checkpoint.score = static_cast<double>(step);
    write_checkpoint(folder.path(), checkpoint, {.keep = 1, .keep_best = KeepBest::kHighest});
  };
  write(0);
  std::jthread writer([&] {
    for (std::int64_t step = 1; step <= 40; ++step) write(step);
  });
  std::int64_t last = 0;
  while (last < 40) {
    const FoundCheckpoint found = read_best_checkpoint(folder.path(), KeepBest::kHighest);
    ASSERT_GE(found.checkpoint.step, last);
    last = found.checkpoint.step;
  }
}

}  // namespace
}  // namespace mezzo::io
