// Tests --report: the page of a run.
#include <gmock/gmock.h>

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

}  // namespace
}  // namespace mezzo::cli_tests
