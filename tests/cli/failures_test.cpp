// Tests failures during a run: exit status 1, and everything that can be written is written.
#include <algorithm>
#include <string>

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "mezzo/core/error.h"
#include "tests/cli/command.h"

namespace mezzo::cli_tests {
namespace {

using testing::HasSubstr;

class Failures : public Command {
 protected:
  void SetUp() override {
    Command::SetUp();
    fs::create_directory(folder_ / "out");
  }

  // Trains while a shell command runs in between. The log goes through a pipe that is read further
  // only after that command, and that cannot hold all steps.
  Outcome train_with(const std::string& middle, const std::string& options) const {
    return run_with("train --amp O0", middle, options);
  }
  Outcome run_with(const std::string& command, const std::string& middle,
                   const std::string& options) const {
    const std::string log = path("pipe");
    fs::remove(log);
    EXPECT_EQ(mkfifo(log.c_str(), 0600), 0);
    return run_line(concat("{ read -r first; ", middle, "; cat >", path("rest"), "; } <", log,
                           " & ", MEZZO_COMMAND, " ", command, " --model mlp --batch-size 8 ",
                           "--steps 900 --quiet --json ", log, " ", options));
  }
};

TEST_F(Failures, AFolderThatIsRemovedMeanwhileIsNoWrongInput) {
  const Outcome outcome = train_with("rm -r " + path("out"),
                                     concat("--save ", path("out/w"), " --report ", path("page")));
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.errors, concat("mezzo: [safetensors] ", path("out/w"),
                                   ": cannot be created: No such file or directory. Check that the "
                                   "folder exists\n"));
  EXPECT_THAT(read_text("page"), HasSubstr("</html>"));
  EXPECT_EQ(run("train --steps 1 --save " + path("out/w")).status, 2) << "before it begins";
}

TEST_F(Failures, ACheckpointFolderThatSomeoneElseWritesToIsNoWrongInput) {
  const std::string folder = path("run");
  const Outcome outcome = train_with(concat("exec flock ", folder, " cat >", path("rest")),
                                     "--checkpoint-every 850 --checkpoint-dir " + folder);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.errors, HasSubstr("another process is writing a checkpoint"));
}

// The training is finished by then.
TEST_F(Failures, WeightsAndPageAreWrittenWhereTheLastCheckpointIsNot) {
  const std::string folder = path("run");
  const Outcome outcome = train_with(concat("rm -r ", folder, "; echo >", folder),
                                     concat("--checkpoint-dir ", folder, " --save ", path("w"),
                                            " --report ", path("page"), " --histogram-every 300"));
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.errors, HasSubstr("run: cannot be created: File exists"));
  EXPECT_EQ(std::ranges::count(outcome.errors, '\n'), 1) << outcome.errors;
  EXPECT_THAT(read_text("page"), HasSubstr("Parameter gradients"));
  EXPECT_EQ(run("eval --model mlp --weights " + path("w")).status, 0);
}

TEST_F(Failures, OfAComparisonWhatIsDoneIsShown) {
  const Outcome outcome =
      run_with("compare --levels O0,O2", concat("echo >", path("events/2-O2-bf16")),
               concat("--logdir ", path("events"), " --report ", path("page")));
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.errors, HasSubstr("2-O2-bf16: cannot be created"));
  EXPECT_THAT(outcome.output, HasSubstr("mlp      O0     f32"));
  EXPECT_THAT(read_text("page"), HasSubstr("mlp O0"));
}

// What can be checked early fails before any of the runs and leaves nothing behind.
TEST_F(Failures, FoldersOfLogsAreTriedBeforeTheFirstRun) {
  const std::string options = " --model mlp --steps 1 --batch-size 8 --quiet --logdir ";
  fs::create_directory(path("events"));
  std::ofstream(path("events/2-O2-bf16")) << "no folder";
  const Outcome outcome = run("compare --levels O0,O2" + options + path("events"));
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.errors, HasSubstr("2-O2-bf16: cannot be created"));
  EXPECT_EQ(std::ranges::count(outcome.errors, '\n'), 1) << outcome.errors;
  EXPECT_EQ(outcome.output, "");
  EXPECT_FALSE(fs::exists(path("events/1-O0-f32")));
  EXPECT_EQ(
      run(concat("train", options, path("new/events"), " --checkpoint-dir /dev/null/run")).status,
      2);
  EXPECT_FALSE(fs::exists(path("new")));
}

// The page of its middle would otherwise say forever that the run goes on.
TEST_F(Failures, ARunThatFailsInItsMiddleEndsItsPage) {
  const std::string folder = path("run");
  const std::string page = path("page");
  // A page is due after two seconds. Some room in the pipe lets the next step write it.
  const Outcome outcome =
      train_with(concat("sleep 2.5; head -c 8192 >", path("some"), "; until [ -s ", page,
                        " ]; do sleep 0.1; done; cp ", page, " ", path("middle"), "; rm -r ",
                        folder, "; echo >", folder),
                 concat("--checkpoint-every 850 --checkpoint-dir ", folder, " --report ", page));
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(read_text("middle"), HasSubstr("Running: step "));
  EXPECT_THAT(read_text("page"), HasSubstr("Ended after step 850 of 900."));
}

// An unfinished training saves no weights.
TEST_F(Failures, ARunThatFailsInItsMiddleSavesNothing) {
  const std::string folder = path("run");
  const Outcome outcome =
      train_with(concat("rm -r ", folder, "; echo >", folder),
                 concat("--checkpoint-every 850 --checkpoint-dir ", folder, " --save ", path("w")));
  EXPECT_EQ(outcome.status, 1);
  EXPECT_FALSE(fs::exists(path("w")));
}

}  // namespace
}  // namespace mezzo::cli_tests
