// Tests the `mezzo` command as users see it: exit status, tables, files, JSON lines.
#include <algorithm>
#include <set>

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "mezzo/core/cpu.h"
#include "mezzo/core/error.h"
#include "tests/cli/command.h"

namespace mezzo::cli_tests {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

TEST_F(Command, AFullDiskIsAFailureOnTheWay) {
  const Outcome outcome = run("train --steps 1 --json /dev/full");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.errors, HasSubstr("/dev/full: writing failed. Is the disk full?"));
}

TEST_F(Command, AFullDiskBehindStandardOutputIsAFailure) {
  for (const std::string command : {"plan lenet5", "plan resnet50", "--help"}) {
    const Outcome outcome = run(command + " >/dev/full");
    EXPECT_EQ(outcome.status, 1) << command;
    EXPECT_THAT(outcome.errors, HasSubstr("[output] writing to standard output failed")) << command;
  }
}

TEST_F(Command, ARunOutlivesWhatShowsItsProgress) {
  const std::string options = "--model mlp --batch-size 500 --json " + path("log.jsonl");
  EXPECT_EQ(run("train --steps 1 " + options + " 2>/dev/full && true").status, 0);
  EXPECT_EQ(read_events("log.jsonl").back()["event"], "result");
}

// The run's output goes into a pipe whose reader is gone.
TEST_F(Command, ARunOutlivesTheReaderOfItsOutput) {
  const std::string train = concat("train --model mlp --batch-size 500 --epochs 3 --save ",
                                   path("w"), " --json ", path("log.jsonl"));
  const std::string line =
      concat("{ ", MEZZO_COMMAND, " ", train, " 2>&1; echo $? >", path("status"), "; } | true");
  EXPECT_EQ(run_line(line).status, 0);
  EXPECT_EQ(read_text("status"), "0\n");
  EXPECT_EQ(read_events("log.jsonl").back()["event"], "result");
  EXPECT_TRUE(fs::exists(path("w")));
}

TEST_F(Command, AReaderThatLeavesHasReadWhatItWanted) {
  for (const char* command : {"ops", "ops --markdown", "plan resnet50", "--help"}) {
    for (const char* reader : {"true", "head -c 1"}) {
      SCOPED_TRACE(concat(command, " | ", reader));
      // On every CPU as on one without fast bf16, of which a plan has nothing to say.
      run_line(concat("{ ", kWithoutFastBf16, MEZZO_COMMAND, " ", command, " 2>", path("errors"),
                      "; echo $? >", path("status"), "; } | ", reader));
      EXPECT_EQ(read_text("status"), "0\n");
      EXPECT_EQ(read_text("errors"), "");
    }
  }
}

TEST_F(Command, ALogWhoseReaderLeavesIsAFailureOnTheWay) {
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  const std::string line =
      concat("head -c 1 ", path("pipe"), " & ", MEZZO_COMMAND,
             " train --model mlp --batch-size 16 --epochs 100000 --quiet --json ", path("pipe"));
  const Outcome outcome = run_line(line);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.errors, concat("mezzo: [json] ", path("pipe"),
                                   ": its reader has closed it. Write to a file instead\n"));
}

TEST_F(Command, ARefusedRunLeavesTheLogOfAnotherOneAlone) {
  const std::string options = "train --model lenet5 --batch-size 16 --quiet --checkpoint-dir " +
                              path("run") + " --json " + path("log.jsonl") + " --steps ";
  ASSERT_EQ(run(options + "1").status, 0);
  const std::size_t events = read_events("log.jsonl").size();
  EXPECT_EQ(run(options + "2").status, 2);
  EXPECT_EQ(run("bench --warmup -1 --json " + path("log.jsonl")).status, 2);
  EXPECT_EQ(read_events("log.jsonl").size(), events);
}

TEST_F(Command, ARefusedRunLeavesNoEmptyLogs) {
  const std::string checkpoints =
      " --model mlp --batch-size 500 --quiet --checkpoint-dir " + path("run") + " --steps ";
  ASSERT_EQ(run("train" + checkpoints + "1").status, 0);
  const std::string logs = " --json " + path("log") + " --logdir " + path("events");
  EXPECT_EQ(run("train" + checkpoints + "2" + logs).status, 2);
  EXPECT_EQ(run("train --resume --seed 7" + checkpoints + "2" + logs).status, 2);
  EXPECT_EQ(run("train --save /no/such/folder/w" + logs).status, 2);
  EXPECT_EQ(run("compare --keep-f32 fc9" + logs).status, 2);
  // The error must not come from the first level, which casts nothing.
  EXPECT_EQ(run("compare --model mlp --levels O0,O2 --lower fc9 --steps 1" + logs).status, 2);
  EXPECT_EQ(run("bench --warmup -1 --json " + path("log")).status, 2);
  EXPECT_FALSE(fs::exists(path("log")));
  EXPECT_FALSE(fs::exists(path("events")));
}

TEST_F(Command, BenchSaysThatStepsWereSkipped) {
  const std::string options =
      "bench --model mlp --batch-size 4 --steps 2 --warmup 1 --quiet --amp O2/f16";
  EXPECT_THAT(run(options).output, testing::Not(HasSubstr("skipped")));
  EXPECT_THAT(run(options + " --loss-scale 1e38").output, HasSubstr("skipped   2 of 2 steps"));
}

TEST_F(Command, ALogThatCannotBeWrittenSaysWhy) {
  EXPECT_EQ(run("plan mlp --json " + path("")).errors,
            concat("mezzo: [json] ", path(""),
                   ": cannot be written: Is a directory. It is a folder: give a file\n"));
  EXPECT_THAT(run("plan mlp --json " + path("none/log")).errors,
              HasSubstr("cannot be written: No such file or directory. Check that the folder"));
}

TEST_F(Command, AFileThatIsNoLogIsLeftAlone) {
  const std::string options =
      " --model mlp --batch-size 500 --quiet --steps 1 --json " + path("log");
  const std::string resumed = concat("train --resume", options, " --checkpoint-dir ", path("run"));
  for (const std::string text : {"notes\nwithout an end", "{\"loss\": 1}", "\n"}) {
    std::ofstream(path("log")) << text;
    for (const std::string& command :
         {"train" + options, resumed, "compare" + options, "bench" + options,
          "plan mlp --json " + path("log"), "plan mlp --graph --json " + path("log")}) {
      const Outcome outcome = run(command);
      EXPECT_EQ(outcome.status, 2) << command;
      EXPECT_THAT(outcome.errors, HasSubstr("exists and is not a log of mezzo")) << command;
      EXPECT_EQ(read_text("log"), text) << command;
    }
  }
  for (const std::string text : {"", "{\"ev", "{\"event\":\"start\""}) {
    std::ofstream(path("log")) << text;
    fs::remove_all(path("run"));
    EXPECT_EQ(run(resumed).status, 0) << text;
    EXPECT_EQ(read_events("log").front()["event"], "start") << text;
  }
}

// O0 is the reference of the comparison.
TEST_F(Command, OptionsThatLowerAreNotForO0) {
  EXPECT_THAT(run("train --amp O0 --lower fc1").errors,
              HasSubstr("[--lower] and --keep-batchnorm-fp32 false do nothing at --amp O0"));
  EXPECT_EQ(run("bench --amp O0 --keep-batchnorm-fp32 false").status, 2);
  const std::string options = " --model mlp --batch-size 500 --quiet --steps 1 --json ";
  ASSERT_EQ(run("compare --levels O0,O1 --lower relu" + options + path("log")).status, 0);
  ASSERT_EQ(run("train --amp O0" + options + path("plain")).status, 0);
  const Json first = read_events("log")[1];
  EXPECT_EQ(first["loss"], read_events("plain")[1]["loss"]);
}

TEST_F(Command, ComparesO0WithoutALowerPrecision) {
  EXPECT_EQ(run("compare --levels O0 --dtype f32 --model lenet5 --steps 1 --quiet").status, 0);
}

TEST_F(Command, PlanSaysWhatRunsInWhichPrecisionAndWhy) {
  const Outcome outcome =
      run("plan lenet5 --amp O2 --dtype f16 --keep-f32 fc3,relu --json " + path("plan.json"));
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("lenet5 at O2/f16"));
  const std::vector<Json> events = read_events("plan.json");
  EXPECT_EQ(events.front()["path"], "conv1");
  EXPECT_EQ(events.front()["dtype"], "f16");
  EXPECT_EQ(events.front()["rule"], "lower");
  EXPECT_EQ(events.front()["casts"].size(), 2U);
  EXPECT_EQ(events[1]["op"], "relu");
  EXPECT_EQ(events[1]["rule"], "user");
  EXPECT_EQ(events.back()["event"], "result");
  EXPECT_EQ(events.back()["ops"], events.size() - 1);
}

TEST_F(Command, AFailedRunLeavesNothingBehind) {
  const Outcome outcome = run("train --steps 1 --data mnist:/no/such --save " + path("w"));
  EXPECT_EQ(outcome.status, 2);
  EXPECT_FALSE(fs::exists(path("w")));
}

// Checks the end of every run; values that a command does not measure are null.
void expect_result(const Json& event) {
  EXPECT_EQ(event["event"], "result");
  for (const char* key : {"accuracy", "loss", "step_ms_median", "images_per_s", "peak_bytes",
                          "skipped_steps", "level", "dtype"}) {
    EXPECT_TRUE(event.contains(key)) << key;
  }
}

TEST_F(Command, TrainWritesEventsAndSavesWeightsThatEvalReads) {
  const Outcome trained = run("train --steps 20 --batch-size 16 --quiet --json " +
                              path("log.json") + " --save " + path("weights.safetensors"));
  ASSERT_EQ(trained.status, 0) << trained.errors;
  const std::vector<Json> events = read_events("log.json");
  ASSERT_EQ(events.size(), 1U + 20U + 1U + 1U);
  EXPECT_EQ(events.front()["event"], "start");
  EXPECT_EQ(events[1]["event"], "step");
  for (const char* key : {"step", "epoch", "loss", "lr", "scale", "found_inf", "skipped", "ms"}) {
    EXPECT_TRUE(events[1].contains(key)) << key;
  }
  const Json& result = events.back();
  expect_result(result);
  EXPECT_EQ(result["level"], "O2");
  EXPECT_EQ(result["dtype"], "bf16");
  const Outcome evaluated = run("eval --weights " + path("weights.safetensors") +
                                " --batch-size 16 --quiet --json " + path("eval.json"));
  ASSERT_EQ(evaluated.status, 0) << evaluated.errors;
  expect_result(read_events("eval.json").back());
  EXPECT_GT(read_events("eval.json").back()["peak_bytes"], 0);
  EXPECT_EQ(read_events("eval.json").back()["accuracy"], result["accuracy"]);
}

// The losses of three steps of a network whose convolutions Winograd's method computes.
TEST_F(Command, ExactGivesDirectSums) {
  const auto losses = [&](const std::string& environment, const std::string& option, bool exact) {
    fs::remove(path("log"));
    const Outcome outcome =
        run_line(concat("env ", environment, " ", MEZZO_COMMAND,
                        " train --model resnet20 --image-size 16 --amp O0 --steps 3 ",
                        "--batch-size 64 --quiet --json ", path("log"), " ", option));
    EXPECT_EQ(outcome.status, 0) << outcome.errors;
    std::vector<double> all;
    for (const Json& event : read_events("log")) {
      if (event["event"] == "step") all.push_back(event["loss"]);
      if (event["event"] != "start") continue;
      EXPECT_EQ(event["exact"], exact);
      EXPECT_EQ(event["options"]["--exact"], exact ? "on" : "off");
    }
    return all;
  };
  const std::vector<double> direct = losses("MEZZO_DISABLE_KERNELS=cpu_winograd", "", false);
  ASSERT_EQ(direct.size(), 3U);
  EXPECT_EQ(losses("MEZZO_EXACT=0", "--exact", true), direct);
  EXPECT_EQ(losses("MEZZO_EXACT=1", "", true), direct);
  EXPECT_EQ(losses("MEZZO_EXACT=0", "", false) == direct, !has_vectors());
}

// The start event has the options that the command reads, and no others.
TEST_F(Command, AStartNamesTheOptionsOfItsCommand) {
  const std::string log = " --quiet --json " + path("log");
  ASSERT_EQ(run("bench --model mlp --warmup 1 --steps 2 --loss-scale 64 --tf32" + log).status, 0);
  const Json bench = read_events("log").front();
  EXPECT_EQ(bench["warmup"], 1);
  EXPECT_EQ(bench["steps"], 2);
  EXPECT_EQ(bench["image_size"], 28);
  EXPECT_EQ(bench["loss_scale"], "64");
  EXPECT_EQ(bench["tf32"], true);
  EXPECT_EQ(bench["keep_batchnorm_fp32"], nullptr);
  EXPECT_FALSE(bench.contains("data") || bench.contains("epochs") || bench.contains("options"));
  fs::remove(path("log"));
  const std::string in_o2 = " --keep-batchnorm-fp32 false";
  ASSERT_EQ(run("train --steps 1 --save " + path("w") + in_o2 + log).status, 0);
  const Json train = read_events("log").front();
  EXPECT_EQ(train["data"], "digits");
  EXPECT_EQ(train["lr_schedule"], "constant");
  EXPECT_EQ(train["options"]["--lr"], "0.01");
  EXPECT_EQ(train["weights"], "");
  EXPECT_EQ(train["loss_scale"], nullptr);
  EXPECT_EQ(train["tf32"], false);
  EXPECT_EQ(train["keep_batchnorm_fp32"], false);
  fs::remove(path("log"));
  ASSERT_EQ(run("eval --weights " + path("w") + log).status, 0);
  const Json eval = read_events("log").front();
  EXPECT_EQ(eval["data"], "digits");
  EXPECT_EQ(eval["image_size"], 28);
  EXPECT_EQ(eval["weights"], path("w"));
  EXPECT_FALSE(eval.contains("lr") || eval.contains("augment") || eval.contains("steps") ||
               eval.contains("loss_scale"));
}

TEST_F(Command, ANameOfAnOperationThatIsNotCalledDrawsOneLine) {
  const std::string warning =
      "mezzo warning: [amp] lenet5 does not call `softmax`: its rule changes nothing. `mezzo plan` "
      "shows what the model calls\n";
  for (const char* command : {"plan lenet5", "train --steps 1 --quiet", "bench --steps 1"}) {
    const Outcome outcome = run(std::string(command) + " --keep-f32 softmax,relu");
    EXPECT_EQ(outcome.status, 0) << command;
    EXPECT_EQ(outcome.errors, warning) << command;
  }
}

TEST_F(Command, AListIsSeparatedByCommasWhereWordsFollow) {
  const Outcome plan = run("plan --keep-f32 fc1,fc2 mlp");
  ASSERT_EQ(plan.status, 0) << plan.errors;
  EXPECT_THAT(plan.output, HasSubstr("its module is set to f32"));
  EXPECT_THAT(run("plan --keep-f32 fc1 fc2 mlp").errors,
              HasSubstr("`mlp` does not belong to an option"));
}

TEST_F(Command, EventFilesHoldTheScalars) {
  ASSERT_EQ(run("compare --steps 2 --levels O0,O2 --batch-size 500 --quiet --logdir " + path("log"))
                .status,
            0);
  for (const char* folder : {"log/1-O0-f32", "log/2-O2-bf16"}) {
    ASSERT_TRUE(fs::is_directory(path(folder))) << folder;
    const fs::path file = fs::directory_iterator(path(folder))->path();
    EXPECT_TRUE(file.filename().string().starts_with("events.out.tfevents.")) << file;
    const std::string bytes = read_text(fs::relative(file, folder_).string());
    for (const char* tag : {"train/loss", "train/lr", "train/scale", "test/accuracy",
                            "train/first_batch", "\x89PNG"}) {
      EXPECT_THAT(bytes, HasSubstr(tag)) << folder;
    }
  }
}

TEST_F(Command, StepsGoOnOverAsManyEpochsAsTheyTake) {
  write_cifar10(folder_);  // five batches of four
  const std::string options = " --model mlp --batch-size 4 --quiet --data cifar10:" + path("") +
                              " --json " + path("log") + " --steps ";
  const auto length = [&](const std::string& arguments) {
    EXPECT_EQ(run(arguments).status, 0);
    const Json result = read_events("log").back();
    EXPECT_EQ(read_events("log").front()["epochs"], result["epochs"]);
    return std::pair<int, int>(result["steps"], result["epochs"]);
  };
  using testing::Pair;
  EXPECT_THAT(length("train" + options + "5"), Pair(5, 1));
  EXPECT_THAT(length("train" + options + "12"), Pair(12, 3));
  EXPECT_THAT(length("compare --levels O0" + options + "6"), Pair(6, 2));
  EXPECT_THAT(length("train --epochs 2" + options + "12"), Pair(10, 2));
  EXPECT_THAT(length("train --lr-schedule half-cosine" + options + "12"), Pair(12, 3));
  const double last_rate = events_of(read_events("log"), "step").back()["lr"];
  EXPECT_GT(last_rate, 0);
  EXPECT_LT(last_rate, 0.001) << "the schedule ends with the run";
}

// The losses of all steps logged to that file.
std::vector<double> losses_of(const std::vector<Json>& events) {
  std::vector<double> losses;
  for (const Json& event : events) {
    if (event["event"] == "step") losses.push_back(event["loss"]);
  }
  return losses;
}

TEST_F(Command, ImagesAreAugmentedUnlessTold) {
  write_cifar10(folder_);
  const std::string train =
      "train --model mlp --steps 3 --batch-size 4 --quiet --data cifar10:" + path("");
  const auto losses = [&](const std::string& options) {
    const Outcome outcome = run(train + " " + options + " --json " + path("log.json"));
    EXPECT_EQ(outcome.status, 0) << outcome.errors;
    return losses_of(read_events("log.json"));
  };
  const std::vector<double> augmented = losses("--workers 0");
  EXPECT_EQ(augmented.size(), 3U);
  EXPECT_EQ(losses("--workers 3"), augmented);
  const std::vector<double> plain = losses("--no-augment");
  EXPECT_EQ(losses("--no-augment --image-size 32 --workers 2"), plain);
  EXPECT_NE(plain, augmented);
}

TEST_F(Command, ResidualBlocksBeginAtZeroIfTold) {
  write_cifar10(folder_);
  const std::string train =
      "train --model resnet20 --steps 1 --batch-size 4 --quiet --data cifar10:" + path("");
  const auto first_loss = [&](const std::string& options) {
    const Outcome outcome = run(train + options + " --json " + path("log.json"));
    EXPECT_EQ(outcome.status, 0) << outcome.errors;
    return losses_of(read_events("log.json")).at(0);
  };
  const double usual = first_loss("");
  EXPECT_EQ(read_events("log.json").front()["zero_init_residual"], false);
  EXPECT_NE(first_loss(" --zero-init-residual"), usual);
  EXPECT_EQ(read_events("log.json").front()["zero_init_residual"], true);
}

TEST_F(Command, ImageSizeAndWorkersReachEveryCommand) {
  const std::string options =
      " --image-size 32 --workers 2 --batch-size 500 --json " + path("log.json");
  const Outcome trained = run("train --steps 1 --quiet --save " + path("w") + options);
  ASSERT_EQ(trained.status, 0) << trained.errors;
  const Json start = read_events("log.json").front();
  EXPECT_EQ(start["image_size"], 32);
  EXPECT_EQ(start["workers"], 2);
  EXPECT_EQ(start["augment"], true);
  const Json step = read_events("log.json")[1];
  EXPECT_GE(step["wait_ms"], 0.0);
  EXPECT_EQ(read_events("log.json").back()["wait_ms"], step["wait_ms"]);
  // An MLP accepts images of only one size.
  EXPECT_EQ(run("train --model mlp --steps 1 --save " + path("mlp") + options).status, 0);
  EXPECT_EQ(run("eval --model mlp --weights " + path("mlp") + options).status, 0);
  EXPECT_EQ(run("eval --model mlp --weights " + path("mlp")).status, 2);
}

TEST_F(Command, WeightsThatDoNotFitGetAdviceThatCanBeFollowed) {
  ASSERT_EQ(run("train --model mlp --steps 1 --quiet --save " + path("mlp")).status, 0);
  for (const char* command :
       {"train --quiet --model lenet5", "compare --quiet --model lenet5", "eval --model lenet5",
        "eval --model mlp --data shapes", "export --model mlp --classes 7 --out /dev/null"}) {
    const Outcome outcome = run(concat(command, " --weights ", path("mlp")));
    EXPECT_EQ(outcome.status, 2) << command;
    EXPECT_THAT(outcome.errors, HasSubstr("Use the --model, image size and number")) << command;
    EXPECT_THAT(outcome.errors, testing::Not(HasSubstr("strict"))) << command;
  }
}

TEST_F(Command, CompareStartsEveryLevelFromTheSameWeightsAndPrintsOneTable) {
  const Outcome outcome =
      run("compare --steps 2 --levels O0,O0,O2,O2/f16 --batch-size 16 --quiet "
          "--json " +
          path("log.json"));
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("accuracy"));
  std::vector<Json> results;
  std::vector<double> first_losses;
  for (const Json& event : read_events("log.json")) {
    if (event["event"] == "result") results.push_back(event);
    if (event["event"] == "step" && event["step"] == 1) {
      first_losses.push_back(event["loss"].get<double>());
    }
  }
  ASSERT_EQ(results.size(), 4U);
  EXPECT_EQ(results[0]["accuracy"], results[1]["accuracy"]);
  EXPECT_EQ(results[0]["loss"], results[1]["loss"]);
  EXPECT_EQ(results[3]["dtype"], "f16");
  EXPECT_EQ(first_losses[0], first_losses[1]);
  // The same weights, rounded to 16 bits: 2.3 to within a few units of bf16.
  EXPECT_NEAR(first_losses[0], first_losses[2], 0.02);
  EXPECT_NEAR(first_losses[0], first_losses[3], 0.02);
}

TEST_F(Command, BenchTimesStepsOnGeneratedInput) {
  const Outcome outcome =
      run("bench --model mlp --batch-size 8 --steps 3 --warmup 1 --quiet --json " + path("log"));
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  const Json result = read_events("log").back();
  expect_result(result);
  EXPECT_TRUE(result["accuracy"].is_null());
  EXPECT_GT(result["step_ms_median"].get<double>(), 0);
  EXPECT_GT(result["peak_bytes"].get<std::int64_t>(), 0);
  EXPECT_GT(result["process_bytes"], result["peak_bytes"]);
  EXPECT_EQ(result["steps"], 3);
}

TEST_F(Command, BenchShowsWhereTheTimeGoes) {
  const Outcome outcome =
      run("bench --model mlp --batch-size 8 --steps 2 --profile --quiet --json " + path("log"));
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("roofline"), HasSubstr("between kernels")));
  std::set<std::string> phases;
  for (const Json& event : read_events("log")) {
    if (event["event"] == "profile") phases.insert(event["phase"].get<std::string>());
  }
  EXPECT_THAT(phases, UnorderedElementsAre("forward", "backward", "update"));
}

// The sign of a NaN means nothing, and JSON has no NaN.
TEST_F(Command, ALossThatIsNoNumberIsNan) {
  const std::string options = " --model mlp --lr 1e30 --steps 3 --batch-size 500 --json ";
  const Outcome trained = run("train" + options + path("log") + " --save " + path("weights"));
  ASSERT_EQ(trained.status, 0) << trained.errors;
  const Json result = read_events("log").back();
  ASSERT_TRUE(result["loss"].is_null()) << result;
  const Outcome compared = run("compare --levels O0" + options + path("log"));
  const Outcome evaluated = run("eval --model mlp --weights " + path("weights"));
  for (const std::string& text :
       {trained.output, trained.errors, compared.output, compared.errors, evaluated.output}) {
    EXPECT_THAT(text, AllOf(HasSubstr("nan"), testing::Not(HasSubstr("-nan"))));
  }
}

TEST_F(Command, ADeviceMustBeThere) {
  for (const char* command :
       {"train --steps 1", "bench --steps 1", "compare", "eval --weights w"}) {
    for (const char* device : {"gpu", "cuda:100"}) {
      const Outcome outcome = run(concat(command, " --device ", device));
      EXPECT_EQ(outcome.status, 2) << command << " on " << device;
      EXPECT_THAT(outcome.errors, HasSubstr("device")) << command << " on " << device;
    }
  }
  EXPECT_THAT(run("info").output, HasSubstr("cuda"));
}

TEST_F(Command, OpsSaysWhy) {
  EXPECT_THAT(run("ops").output, AllOf(HasSubstr("conv2d"), HasSubstr("products of 16-bit")));
  EXPECT_THAT(run("ops softmax").output, AllOf(HasSubstr("reason"), HasSubstr("cpu kernels")));
  EXPECT_THAT(run("ops --markdown").output, HasSubstr("| `softmax` |"));
}

TEST_F(Command, InfoAndHelp) {
  EXPECT_THAT(run("info").output, HasSubstr("oneDNN"));
  EXPECT_EQ(run("--help").status, 0);
  EXPECT_THAT(run("train --help").output,
              AllOf(HasSubstr("--loss-scale"), HasSubstr("resnet101"), HasSubstr("--no-shuffle "),
                    HasSubstr("--no-augment ")));
  EXPECT_EQ(run("--version").status, 0);
}

// The output of a shell command, which must succeed.
std::string output_of(const std::string& line) {
  FILE* pipe = popen(line.c_str(), "r");
  if (pipe == nullptr) return {};
  std::string text;
  std::array<char, 4096> buffer{};
  while (fgets(buffer.data(), buffer.size(), pipe) != nullptr) text += buffer.data();
  EXPECT_EQ(pclose(pipe), 0);
  return text;
}

TEST_F(Command, ThreadsSpinForAWhileUnlessTheUserSaysOtherwise) {
  const std::string info = " OMP_DISPLAY_ENV=verbose " MEZZO_COMMAND " info 2>&1";
  EXPECT_THAT(output_of("env -u GOMP_SPINCOUNT -u OMP_WAIT_POLICY" + info),
              HasSubstr("GOMP_SPINCOUNT = '20000'"));
  EXPECT_THAT(output_of("env GOMP_SPINCOUNT=77" + info), HasSubstr("GOMP_SPINCOUNT = '77'"));
  EXPECT_THAT(output_of("env -u GOMP_SPINCOUNT OMP_WAIT_POLICY=active" + info),
              testing::Not(HasSubstr("'20000'")));
}

}  // namespace
}  // namespace mezzo::cli_tests
