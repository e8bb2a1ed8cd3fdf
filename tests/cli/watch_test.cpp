// Tests reactions to the validation, as users of the command see them: averages, plateaus, early
// stops.
#include <algorithm>
#include <string>

#include <gmock/gmock.h>

#include "mezzo/core/error.h"
#include "tests/cli/command.h"

namespace mezzo::cli_tests {
namespace {

using testing::HasSubstr;

// The results are those of the averages, which --save writes and checkpoints provide.
TEST_F(Command, AveragedWeightsAreTestedSavedAndFound) {
  write_cifar10(folder_, 8);
  const std::string data = " --model mlp --batch-size 4 --data cifar10:" + path("");
  const std::string options = "train --lr 0.05 --epochs 3" + data;
  const Outcome plain = run(options + " --quiet --save " + path("plain"));
  const Outcome averaged =
      run(concat(options, " --ema 0.9 --keep-best --checkpoint-dir ", path("run"), " --json ",
                 path("log"), " --report ", path("page"), " --save ", path("averages")));
  ASSERT_EQ(averaged.status, 0) << averaged.errors;
  ASSERT_EQ(plain.status, 0) << plain.errors;
  EXPECT_THAT(averaged.output, HasSubstr(" of averaged weights, "));
  EXPECT_THAT(averaged.errors, HasSubstr("% of averaged weights"));
  EXPECT_THAT(read_text("page"), HasSubstr("of averaged weights, decay 0.9"));
  EXPECT_NE(read_text("plain"), read_text("averages"));
  const std::vector<Json> events = read_events("log");
  EXPECT_EQ(events.front()["ema"], 0.9);
  for (const std::string& weights : {path("averages"), path("run")}) {
    const Outcome evaluated =
        run(concat("eval --weights ", weights, data, " --json ", path("eval")));
    ASSERT_EQ(evaluated.status, 0) << evaluated.errors;
    EXPECT_EQ(read_events("eval").back()["loss"], events.back()["loss"]) << weights;
  }
  // The training itself is the same as without averages.
  const std::vector<Json> steps = steps_of(events);
  const Outcome again = run(options + " --quiet --json " + path("again"));
  ASSERT_EQ(again.status, 0);
  EXPECT_EQ(steps_of(read_events("again")), steps);
}

TEST_F(Command, ARunThatDoesNotGetBetterEndsEarly) {
  write_cifar10(folder_, 8);
  const std::string options =
      concat("train --model mlp --batch-size 4 --lr 1e-30 --data cifar10:", path(""),
             " --epochs 9 --early-stop 2 --checkpoint-dir ", path("run"), " --json ", path("log"));
  const Outcome outcome = run(options + " --report " + path("page"));
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("stopped early after epoch 3: loss was best in epoch 1"));
  EXPECT_THAT(read_text("page"),
              HasSubstr("Stopped early after epoch 3: loss was best in epoch 1"));
  const std::vector<Json> events = read_events("log");
  EXPECT_EQ(events.back()["stopped_early"], true);
  EXPECT_EQ(events.back()["epochs"], 3);
  const std::vector<Json> stop = events_of(events, "early_stop");
  ASSERT_EQ(stop.size(), 1U);
  EXPECT_EQ(stop[0]["epoch"], 3);
  EXPECT_EQ(stop[0]["best_epoch"], 1);
  EXPECT_EQ(stop[0]["monitor"], "loss");
  // The run is already finished and is tested again; with more patience it continues.
  const Outcome over = run(options + " --resume --quiet");
  EXPECT_EQ(over.status, 0) << over.errors;
  EXPECT_THAT(over.output, HasSubstr("no step was left"));
  EXPECT_THAT(over.output, HasSubstr("stopped early after epoch 3"));
  const Outcome more = run(options.substr(0, options.find(" --early-stop")) +
                           " --early-stop 4 --resume --quiet --checkpoint-dir " + path("run"));
  EXPECT_THAT(more.output, HasSubstr("stopped early after epoch 5"));
}

TEST_F(Command, APlateauLowersTheRateAndGoesOnSo) {
  write_cifar10(folder_, 8);
  const std::string options = concat(
      "train --model mlp --batch-size 4 --lr 1e-6 --lr-schedule plateau --lr-factor 0.5 "
      "--lr-patience 0 --lr-cooldown 1 --lr-end 3e-7 --warmup-epochs 1 --ema 0.99 "
      "--ema-warmup --monitor acc --data cifar10:",
      path(""));
  const Outcome whole = run(concat(options, " --epochs 9 --json ", path("a"), " --save ",
                                   path("whole"), " --report ", path("page")));
  ASSERT_EQ(whole.status, 0) << whole.errors;
  const std::vector<Json> events = read_events("a");
  const std::vector<Json> reductions = events_of(events, "lr_reduced");
  ASSERT_FALSE(reductions.empty());
  EXPECT_GE(reductions[0]["epoch"], 3) << "the warm-up does not count";
  EXPECT_EQ(reductions[0]["from"], 1e-6);
  EXPECT_EQ(reductions[0]["to"], 5e-7);
  EXPECT_EQ(steps_of(events).back()["lr"], reductions.back()["to"]) << "it is trained with";
  EXPECT_THAT(whole.errors, HasSubstr("learning rate reduced from 1e-06 to 5e-07"));
  EXPECT_THAT(read_text("page"), HasSubstr("the learning rate was reduced from 1e-06 to 5e-07"));
  const std::string parts = concat(options, " --quiet --checkpoint-dir ", path("run"), " --json ",
                                   path("b"), " --save ", path("parts"));
  ASSERT_EQ(run(parts + " --epochs 9 --steps 55").status, 0);
  const Outcome second = run(parts + " --epochs 9 --resume");
  ASSERT_EQ(second.status, 0) << second.errors;
  EXPECT_EQ(steps_of(read_events("b")), steps_of(events));
  EXPECT_EQ(read_text("whole"), read_text("parts"));
  for (const char* other : {"--lr-factor 0.1", "--ema 0.5", "--monitor loss", "--lr-patience 1"}) {
    const std::string name = std::string(other).substr(0, std::string(other).find(' '));
    std::string changed = parts;
    const std::size_t from = changed.find(name + " ");
    changed.replace(from, changed.find(' ', from + name.size() + 1) - from, other);
    const Outcome refused = run(changed + " --epochs 9 --resume");
    EXPECT_EQ(refused.status, 2) << changed;
    EXPECT_THAT(refused.errors, HasSubstr("the run was started with " + name));
  }
}

TEST_F(Command, WrongValuesOfWhatFollowsTheValidationAreOneLine) {
  for (const char* arguments : {"--ema 1",
                                "--ema -0.1",
                                "--ema nan",
                                "--ema x",
                                "--ema-warmup",
                                "--early-stop 0",
                                "--early-stop -1",
                                "--early-stop 1.5",
                                "--monitor accuracy",
                                "--early-stop 2 --monitor top5",
                                "--early-stop 2 --monitor x",
                                "--lr-factor 0.5",
                                "--lr-patience 1",
                                "--lr-cooldown 1",
                                "--lr-schedule plateau --lr-factor 1",
                                "--lr-schedule plateau --lr-factor -1",
                                "--lr-schedule plateau --lr-patience -1",
                                "--lr-schedule plateau --lr-cooldown -1",
                                "--lr-schedule plateau --lr-end -1",
                                "--lr-schedule plateaus"}) {
    for (const char* command : {"train ", "compare "}) {
      const Outcome outcome = run(concat(command, arguments, " --steps 1"));
      EXPECT_EQ(outcome.status, 2) << arguments;
      EXPECT_EQ(std::ranges::count(outcome.errors, '\n'), 1) << outcome.errors;
    }
  }
}

TEST_F(Command, ComparisonsAverageAndEndEarly) {
  const Outcome outcome =
      run(concat("compare --model mlp --batch-size 500 --lr 1e-30 --epochs 5 --early-stop 1 --ema "
                 "0.5 --levels O0,O1 --json ",
                 path("log")));
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  const std::vector<Json> results = events_of(read_events("log"), "result");
  ASSERT_EQ(results.size(), 2U);
  for (const Json& result : results) {
    EXPECT_EQ(result["epochs"], 2);
    EXPECT_EQ(result["stopped_early"], true);
  }
}

}  // namespace
}  // namespace mezzo::cli_tests
