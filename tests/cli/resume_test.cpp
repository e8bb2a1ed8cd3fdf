// Tests checkpoints as users see them: runs that are stopped, killed or resumed.
#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <string>

#include <gmock/gmock.h>

#include "mezzo/core/error.h"
#include "tests/cli/command.h"

namespace mezzo::cli_tests {
namespace {

using testing::HasSubstr;

// A run in two parts, the second from a checkpoint, equals the unbroken run bit for bit. This
// includes stops in mid-epoch, and skipped steps while the scale was searched for.
TEST_F(Command, AResumedRunIsTheUnbrokenRun) {
  for (const char* precision : {"--amp O0", "--dtype bf16", "--dtype f16",
                                "--dtype f16 --optimizer-state bf16", "--optimizer-state e4m3"}) {
    const std::string options = concat("train --batch-size 500 --momentum 0.9 --quiet ", precision);
    const std::string whole = concat(options, " --save ", path("whole"), " --json ", path("a"));
    const std::string parts = concat(options, " --checkpoint-every 5 --checkpoint-dir ",
                                     path("run"), " --save ", path("parts"), " --json ", path("b"));
    fs::remove_all(path("run"));
    ASSERT_EQ(run(concat(whole, " --steps 24")).status, 0);
    ASSERT_EQ(run(concat(parts, " --steps 13")).status, 0);
    const Outcome second = run(concat(parts, " --steps 24 --resume"));
    ASSERT_EQ(second.status, 0) << second.errors;
    EXPECT_EQ(steps_of(read_events("a")), steps_of(read_events("b"))) << precision;
    EXPECT_EQ(read_text("whole"), read_text("parts")) << precision;
  }
}

// The folder of the newest checkpoint.
fs::path newest_checkpoint(const fs::path& folder) {
  fs::path newest;
  for (const auto& entry : fs::directory_iterator(folder)) newest = std::max(newest, entry.path());
  return newest;
}

TEST_F(Command, ARunThatLostItsLastStepsDoesThemAgain) {
  const std::string options = "train --batch-size 500 --quiet --dtype f16 --loss-scale dynamic ";
  ASSERT_EQ(run(options + "--steps 24 --json " + path("a")).status, 0);
  const std::string part = options + "--checkpoint-every 5 --checkpoint-dir " + path("run");
  ASSERT_EQ(run(part + " --steps 13").status, 0);
  fs::remove_all(newest_checkpoint(path("run")));  // as if killed after step 12
  ASSERT_EQ(run(part + " --steps 24 --resume --json " + path("b")).status, 0);
  std::vector<Json> expected = steps_of(read_events("a"));
  expected.erase(expected.begin(), expected.begin() + 10);
  EXPECT_EQ(steps_of(read_events("b")), expected);
}

// A command line that sends SIGTERM to a command once the file has a line that matches the pattern,
// and ends with the command's status.
std::string signalled(const std::string& arguments, const std::string& file,
                      const std::string& pattern) {
  return concat(MEZZO_COMMAND, " ", arguments, " & pid=$!; until grep -q '", pattern, "' ", file,
                " 2>/dev/null; do sleep 0.02; done; kill -TERM $pid; wait $pid");
}

TEST_F(Command, ASignalEndsTheRunAfterItsStepAndKeepsIt) {
  const std::string script = signalled(
      "train --batch-size 500 --epochs 100000 --quiet "
      "--checkpoint-dir " +
          path("run") + " --json " + path("log") + " 2>" + path("errors"),
      path("log"), "step");
  EXPECT_EQ(WEXITSTATUS(std::system(script.c_str())), 1);
  EXPECT_THAT(read_text("errors"), HasSubstr("Continue with --resume"));
  EXPECT_FALSE(newest_checkpoint(path("run")).empty());
}

// A handler's frame would overwrite memory to which oneDNN's stack pointer points, so no handler
// may ever run.
TEST_F(Command, SignalsAreWaitedForNotHandled) {
  const std::string script =
      concat(MEZZO_COMMAND, " train --model mlp --epochs 100000 --quiet --json ", path("log"),
             " 2>/dev/null & pid=$!; until grep -q step ", path("log"),
             " 2>/dev/null; do sleep 0.02; done; grep SigCgt /proc/$pid/status > ", path("caught"),
             "; kill -TERM $pid; wait $pid");
  EXPECT_EQ(WEXITSTATUS(std::system(script.c_str())), 1);
  const std::string caught = read_text("caught");
  ASSERT_THAT(caught, testing::StartsWith("SigCgt:"));
  const std::uint64_t mask = std::stoull(caught.substr(caught.find(':') + 1), nullptr, 16);
  for (const int signal : {SIGINT, SIGTERM}) EXPECT_EQ(mask >> (signal - 1) & 1U, 0U) << signal;
}

// Only runs are asked to stop; other commands end at once, with the status of the signal.
TEST_F(Command, ASignalEndsWhatIsNoRun) {
  const std::string script =
      concat(MEZZO_COMMAND, " bench --model mlp --steps 1000000 --quiet --json ", path("log"),
             " 2>/dev/null & pid=$!; until grep -q step ", path("log"),
             " 2>/dev/null; do sleep 0.02; done; kill -TERM $pid; wait $pid");
  EXPECT_EQ(WEXITSTATUS(std::system(script.c_str())), 128 + SIGTERM);
}

// The runs that were finished by then are in the table, the log and the report.
TEST_F(Command, ASignalEndsAComparisonAfterItsStep) {
  const std::string script = signalled(
      "compare --model mlp --batch-size 500 --epochs 2 --quiet "
      "--levels O0,O1,O2,O3,O0,O1,O2,O3 --report " +
          path("run.html") + " --json " + path("log") + " >" + path("table") + " 2>" +
          path("errors"),
      path("log"), "result");
  EXPECT_EQ(WEXITSTATUS(std::system(script.c_str())), 1);
  EXPECT_THAT(read_text("errors"), testing::ContainsRegex("stopped by a signal after step [0-9]+ "
                                                          "of mlp O[0-3]/.*: [0-9] of 8 runs"));
  const std::vector<Json> events = read_events("log");
  EXPECT_EQ(events.back()["event"], "stopped");
  EXPECT_EQ(events.back()["step"], events_of(events, "step").back()["step"]);
  const std::string table = read_text("table");
  EXPECT_EQ(static_cast<std::size_t>(std::count(table.begin(), table.end(), '\n')),
            2 + events_of(events, "result").size());
  EXPECT_THAT(read_text("run.html"), HasSubstr("</html>"));
}

// The best epoch's checkpoint stays, and eval computes its accuracy again.
TEST_F(Command, KeepBestKeepsTheBestEpoch) {
  write_cifar10(folder_, 8);
  const std::string data = " --model mlp --batch-size 4 --data cifar10:" + path("");
  const Outcome trained =
      run("train --quiet --lr 0.05 --keep 1 --keep-best --epochs 6 --checkpoint-dir " +
          path("run") + " --json " + path("log") + data);
  ASSERT_EQ(trained.status, 0) << trained.errors;
  std::vector<Json> epochs = events_of(read_events("log"), "epoch");
  ASSERT_EQ(epochs.size(), 6U);
  const auto best = std::ranges::max_element(
      epochs, {}, [](const Json& epoch) { return epoch["accuracy"].get<double>(); });
  const fs::path kept = newest_checkpoint(path("run/best"));
  EXPECT_TRUE(kept.string().ends_with("-step-" + std::to_string(10 * (best - epochs.begin() + 1))))
      << kept;
  for (const std::string& weights : {path("run/best"), kept.string()}) {
    const Outcome evaluated =
        run(concat("eval --weights ", weights, data, " --json ", path("eval")));
    ASSERT_EQ(evaluated.status, 0) << evaluated.errors;
    EXPECT_EQ(read_events("eval").back()["accuracy"], (*best)["accuracy"]);
  }
  EXPECT_TRUE(newest_checkpoint(path("run")).string().ends_with("best"));
}

// A run that was killed while writing left half a line; the next run starts a new line.
TEST_F(Command, ATornLineOfTheLogIsDropped) {
  const std::string options = "train --model mlp --batch-size 500 --quiet --checkpoint-dir " +
                              path("run") + " --json " + path("log");
  ASSERT_EQ(run(options + " --steps 2").status, 0);
  std::ofstream(path("log"), std::ios::app) << "{\"event\":\"st";
  ASSERT_EQ(run(options + " --steps 3 --resume").status, 0);
  EXPECT_EQ(steps_of(read_events("log")).size(), 3U);
}

// Standard output only has the result.
TEST_F(Command, WhereARunGoesOnIsProgress) {
  const std::string options =
      "train --model mlp --batch-size 500 --checkpoint-dir " + path("run") + " --steps ";
  ASSERT_EQ(run(options + "1").status, 0);
  const Outcome outcome = run(options + "2 --resume");
  EXPECT_THAT(outcome.errors, HasSubstr("continues from " + path("run")));
  EXPECT_EQ(std::count(outcome.output.begin(), outcome.output.end(), '\n'), 1) << outcome.output;
  const Outcome done = run(options + "2 --resume --quiet");
  EXPECT_THAT(done.errors, testing::Not(HasSubstr("continues")));
  EXPECT_THAT(done.output, HasSubstr("no step was left\n"));
}

TEST_F(Command, ResumeTakesTheSameRunInOtherWords) {
  ASSERT_EQ(run("train --model mlp --steps 1 --quiet --save " + path("w")).status, 0);
  const std::string options = concat("train --model mlp --batch-size 500 --quiet --resume ",
                                     "--checkpoint-dir ", path("run"), " --weights ", path("w"));
  ASSERT_EQ(run(options + " --steps 1").status, 0);
  EXPECT_EQ(run(options + " --steps 2 --image-size 28").status, 0);
  EXPECT_EQ(run(options + " --steps 3 --image-size 32").status, 2);
  fs::remove(path("w"));  // the checkpoint has newer weights
  const Outcome outcome = run(options + " --steps 3 --report " + path("page"));
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  fs::remove_all(path("run"));
  EXPECT_EQ(run(options + " --steps 1").status, 2) << "which begins anew";
}

TEST_F(Command, ResumeRefusesOtherOptionsAndMissingFolders) {
  const std::string options = "train --batch-size 500 --steps 2 --quiet ";
  ASSERT_EQ(run(options + "--checkpoint-dir " + path("run")).status, 0);
  const Outcome other = run(options + "--lr 0.5 --resume --checkpoint-dir " + path("run"));
  EXPECT_EQ(other.status, 2);
  EXPECT_THAT(other.errors, HasSubstr("started with --lr 0.01, not 0.5"));
  const Outcome exact = run(options + "--exact --resume --checkpoint-dir " + path("run"));
  EXPECT_EQ(exact.status, 2);
  EXPECT_THAT(exact.errors, HasSubstr("started with --exact off, not on"));
  const Outcome state =
      run(options + "--optimizer-state e4m3 --resume --checkpoint-dir " + path("run"));
  EXPECT_EQ(state.status, 2);
  EXPECT_THAT(state.errors, HasSubstr("started with --optimizer-state f32, not e4m3"));
  EXPECT_EQ(run(options + "--resume").status, 2);
  EXPECT_EQ(run(options + "--resume --checkpoint-dir " + path("new")).status, 0);
}

}  // namespace
}  // namespace mezzo::cli_tests
