// Tests --report: the page of a run.
#include <algorithm>
#include <iterator>

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "mezzo/core/error.h"
#include "tests/cli/command.h"

namespace mezzo::cli_tests {
namespace {

using testing::HasSubstr;

TEST_F(Command, TrainWritesAReport) {
  const Outcome outcome =
      run("train --steps 4 --batch-size 16 --dtype f16 --loss-scale 1e30 --quiet --histogram-every "
          "2 --activation-gradients --report " +
          path("run.html") + " --json " + path("log.json"));
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  const std::string page = read_text("run.html");
  for (const char* part :
       {"lenet5 O2/f16 on digits", "4 steps of 4 were skipped", "Parameter gradients",
        "counted in 2 of 4 steps", "Activation gradients", "Activations", "Weights",
        "What each format does to every call", "conv1: conv2d", "Outlook on eight bits",
        "f16 can hold the results of", "Precision plan", "conv1.weight", "All 16 images",
        "image/png;base64,", "</html>"}) {
    EXPECT_THAT(page, HasSubstr(part));
  }
  EXPECT_THAT(read_events("log.json")[1]["first_bad"], testing::Ne(""));
}

TEST_F(Command, AReportOfALongPathIsCalledByItsEnd) {
  const std::string name = "flowers-of-the-alps";
  const fs::path data = folder_ / std::string(60, 'x') / name;
  fs::create_directories(data);
  write_cifar10(data);
  const Outcome outcome = run(concat("train --model mlp --steps 1 --batch-size 4 --quiet --data ",
                                     "cifar10:", data.string(), "/ --report ", path("run.html")));
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  const std::string page = read_text("run.html");
  EXPECT_THAT(page, HasSubstr(concat("<h1>mlp O2/bf16 on cifar10:…/", name, "</h1>")));
  EXPECT_THAT(page, HasSubstr(concat("<dd>cifar10:", data.string(), "/</dd>")));
}

TEST_F(Command, AReportWithoutHistogramsHasNoGradients) {
  const Outcome outcome = run(
      "train --steps 2 --batch-size 16 --quiet --histogram-every 0 --report " + path("run.html"));
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_THAT(read_text("run.html"), testing::Not(HasSubstr("Parameter gradients")));
  EXPECT_THAT(read_text("run.html"), testing::Not(HasSubstr("Activations")));
}

TEST_F(Command, CompareWritesOneReportOfAllRuns) {
  const Outcome outcome = run(
      "compare --steps 2 --levels O0,O2/f16 --batch-size 16 --quiet --report " + path("run.html"));
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  const std::string page = read_text("run.html");
  for (const char* part : {"Comparison", "lenet5 O0/f32", "lenet5 O2/f16", "Parameter gradients"}) {
    EXPECT_THAT(page, HasSubstr(part));
  }
}

// Trains while a shell command runs in between. The log goes through a pipe, which is read further
// only after that command, and which holds a small part of the steps.
class LiveReport : public Command {
 protected:
  // In the command, $run is the number of the training's process.
  Outcome train_with(const std::string& middle) const {
    const std::string log = path("pipe");
    EXPECT_EQ(mkfifo(log.c_str(), 0600), 0);
    return run_line(concat("{ ", MEZZO_COMMAND, " train --model mlp --amp O0 --batch-size 8",
                           " --histogram-every 1 --epochs 3 --steps 2000 --quiet --json ", log,
                           " --report ", path("out/run.html"), " & run=$!; { read -r first; ",
                           middle, "; cat >", path("rest"), "; } <", log, "; wait $run; }"));
  }

  // Waits until a page is due by report::RefreshPace, and lets the run do some steps: more of the
  // log than the pipe holds, 64 KiB.
  std::string due_page() const { return concat("sleep 2.5; head -c 70000 >", path("some")); }

  void SetUp() override {
    Command::SetUp();
    fs::create_directory(folder_ / "out");
  }
};

TEST_F(LiveReport, ThePageIsThereWhileTheRunGoesOn) {
  const Outcome outcome =
      train_with(concat(due_page(), "; cp ", path("out/run.html"), " ", path("middle.html")));
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  const std::string middle = read_text("middle.html");
  for (const char* part : {"<meta http-equiv=\"refresh\" content=\"5\"/>", "Running: step ",
                           " of 2000.", "So far, the run did ", "Parameter gradients", "</html>"}) {
    EXPECT_THAT(middle, HasSubstr(part));
  }
  const std::string end = read_text("out/run.html");
  EXPECT_THAT(end, HasSubstr("Finished after 2000 steps."));
  EXPECT_THAT(end, testing::Not(HasSubstr("http-equiv")));
}

TEST_F(LiveReport, AKilledRunLeavesThePageOfItsLastState) {
  train_with(due_page() + "; kill -9 $run");
  const std::string page = read_text("out/run.html");
  EXPECT_THAT(page, HasSubstr("Running: step "));
  EXPECT_THAT(page, testing::EndsWith("</html>\n"));
}

TEST_F(LiveReport, APageThatCannotBeWrittenInTheMiddleIsOneWarning) {
  const Outcome outcome =
      train_with(concat("mv ", path("out"), " ", path("away"), "; ", due_page(), "; ", due_page(),
                        "; mv ", path("away"), " ", path("out")));
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_EQ(std::ranges::count(outcome.errors, '\n'), 1) << outcome.errors;
  EXPECT_THAT(outcome.errors, HasSubstr("mezzo warning: [report] "));
  EXPECT_THAT(outcome.errors, HasSubstr("The run goes on"));
  EXPECT_THAT(read_text("out/run.html"), HasSubstr("Finished after 2000 steps."));
}

}  // namespace
}  // namespace mezzo::cli_tests
