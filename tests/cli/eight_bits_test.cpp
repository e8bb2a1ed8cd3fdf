// Tests products in eight bits as users of the command see them.
#include <gmock/gmock.h>

#include "mezzo/core/error.h"
#include "tests/cli/command.h"

namespace mezzo::cli_tests {
namespace {

using testing::HasSubstr;

constexpr const char* kTrain = "train --model lenet5 --data digits --batch-size 16 --quiet";

TEST_F(Command, TrainsInEightBitsByEveryRecipe) {
  for (const std::string recipe : {"current", "delayed", "rows", "mxfp8"}) {
    const Outcome outcome =
        run(concat(kTrain, " --steps 6 --dtype e4m3 --recipe ", recipe, " --json ", path(recipe)));
    ASSERT_EQ(outcome.status, 0) << outcome.errors;
    const std::string shown = recipe == "current" ? "O2/e4m3:" : concat("O2/e4m3/", recipe, ":");
    EXPECT_THAT(outcome.output, HasSubstr(shown));
    EXPECT_EQ(read_events(recipe).front()["dtype"], "e4m3");
  }
}

TEST_F(Command, ComparesRecipesNamedInLevels) {
  const Outcome outcome =
      run("compare --model lenet5 --data digits --batch-size 16 --steps 2 --quiet --levels "
          "O0,O2/bf16,O2/e4m3,O2/e4m3/mxfp8 --recipe delayed");
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("e4m3"));
}

// Delayed scales go on where they were: the run that was resumed writes the same weights.
TEST_F(Command, ResumesDelayedScalesBitForBit) {
  const std::string options =
      concat(kTrain, " --dtype e4m3 --recipe delayed --lr 0.05 --checkpoint-every 3");
  ASSERT_EQ(run(concat(options, " --steps 9 --checkpoint-dir ", path("whole"), " --save ",
                       path("whole.safetensors")))
                .status,
            0);
  ASSERT_EQ(run(concat(options, " --steps 6 --checkpoint-dir ", path("part"))).status, 0);
  const Outcome resumed = run(concat(options, " --steps 9 --resume --checkpoint-dir ", path("part"),
                                     " --save ", path("part.safetensors")));
  ASSERT_EQ(resumed.status, 0) << resumed.errors;
  EXPECT_EQ(read_text("part.safetensors"), read_text("whole.safetensors"));
  const Outcome other = run(concat(kTrain,
                                   " --lr 0.05 --checkpoint-every 3 --steps 9 --dtype e4m3 "
                                   "--recipe rows --resume --checkpoint-dir ",
                                   path("part")));
  EXPECT_EQ(other.status, 2);
  EXPECT_THAT(other.errors, HasSubstr("--recipe"));
}

TEST_F(Command, WhatHasNoEightBitsIsRefused) {
  const auto expect_refused = [&](const std::string& options, const std::string& says) {
    const Outcome outcome = run(concat(kTrain, " ", options));
    EXPECT_EQ(outcome.status, 2) << options;
    EXPECT_THAT(outcome.errors, HasSubstr(says)) << options;
  };
  expect_refused("--recipe delayed",
                 "[--recipe] says how eight bits are scaled, and this run has none. Add --dtype "
                 "e4m3");
  expect_refused("--dtype e4m3 --recipe block",
                 "[--recipe] unknown recipe `block`. Known recipes are current, delayed, rows and "
                 "mxfp8");
  expect_refused("--amp O0/e4m3", "[--amp] e4m3 at O0, which lowers nothing. Use O2/e4m3");
  expect_refused("--amp O2/bf16/rows", "[--amp] `O2/bf16/rows` has a recipe, and no eight bits");
  expect_refused("--dtype e5m2",
                 "[--dtype] `e5m2` is not a lower precision. Use bf16, f16 or e4m3");
}

}  // namespace
}  // namespace mezzo::cli_tests
