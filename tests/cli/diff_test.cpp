// Tests mezzo diff and --dump as users of the command see them.
#include <gmock/gmock.h>

#include "mezzo/core/error.h"
#include "tests/cli/command.h"

namespace mezzo::cli_tests {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kSmall = " --model lenet5 --data digits --batch-size 8";

TEST_F(Command, EqualRunsAreSaidToBeEqual) {
  for (const char* sides : {"O0 O0", "O2/bf16 O2/bf16", "O2/bf16 O2/bf16+graph"}) {
    const Outcome outcome = run(concat("diff ", sides, kSmall, " --json ", path("log")));
    ASSERT_EQ(outcome.status, 0) << outcome.errors;
    EXPECT_THAT(outcome.output, Not(HasSubstr("first difference")));
    EXPECT_THAT(outcome.output, HasSubstr("A: lenet5 O"));
    EXPECT_EQ(read_events("log").back()["event"], "result");
    EXPECT_TRUE(read_events("log").back()["first_difference"].is_null());
  }
  const Outcome outcome = run(concat("diff O0 O0", kSmall));
  EXPECT_THAT(outcome.output, HasSubstr("equal bit for bit: all"));
}

TEST_F(Command, TwoPrecisionsAreComparedCallByCall) {
  const Outcome outcome = run(concat("diff O0 O2/bf16", kSmall, " --json ", path("log"),
                                     " --report ", path("page.html"), " --top 5"));
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("first difference: conv1: conv2d"),
                                    HasSubstr("It is computed in other dtypes"),
                                    HasSubstr("nothing is beyond what the dtypes explain"),
                                    HasSubstr("largest error, backward:")));
  const std::vector<Json> events = read_events("log");
  EXPECT_EQ(events.front()["command"], "diff");
  EXPECT_EQ(events.back()["first_difference"], "conv1: conv2d");
  EXPECT_THAT(read_text("page.html"),
              AllOf(HasSubstr("<title>"), HasSubstr("The network"), HasSubstr("conv1: conv2d")));
}

TEST_F(Command, AgainstF64) {
  const Outcome outcome = run(concat("diff f64 O0", kSmall));
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("A: lenet5 f64"),
                                    HasSubstr("nothing is beyond what the dtypes explain")));
}

TEST_F(Command, BatchNormAgainstF64) {
  const Outcome outcome =
      run("diff f64 O0 --model resnet20 --data digits --image-size 16 --batch-size 2");
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("A: resnet20 f64"));
}

TEST_F(Command, ADumpIsReadByDiff) {
  const std::string train = concat("train --amp O2/bf16 --steps 3 --quiet", kSmall);
  const Outcome written = run(concat(train, " --dump 2 --dump-dir ", path("a")));
  ASSERT_EQ(written.status, 0) << written.errors;
  EXPECT_THAT(written.output, HasSubstr(concat("step 2 is in ", path("a"))));
  ASSERT_EQ(run(concat(train, " --graph --dump 2 --dump-dir ", path("b"))).status, 0);
  const Outcome outcome = run(concat("diff ", path("a"), " ", path("b")));
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, Not(HasSubstr("first difference")));
  EXPECT_THAT(outcome.output, HasSubstr("A: lenet5 O2/bf16, step 2: loss"));
}

// The first step of a training is what diff makes itself.
TEST_F(Command, ADumpOfTheFirstStepIsThatOfALevel) {
  const std::string train = concat("train --amp O0 --steps 1 --quiet", kSmall);
  ASSERT_EQ(run(concat(train, " --dump 1 --dump-dir ", path("a"))).status, 0);
  const Outcome outcome = run(concat("diff ", path("a"), " O0", kSmall));
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("equal bit for bit"));
}

TEST_F(Command, OtherWeightsAreSaidToDiffer) {
  ASSERT_EQ(run(concat("train --amp O0 --steps 2 --quiet --save ", path("w"), kSmall)).status, 0);
  const Outcome outcome = run(concat("diff O0 O0@", path("w"), kSmall));
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("before the step, conv1.weight differs already"));
}

TEST_F(Command, WrongSidesAndDumpsAreUsageErrors) {
  fs::create_directories(folder_ / "full");
  std::ofstream(folder_ / "full" / "file") << "x";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"diff O0", "B is required"},
      {"diff O0 O9", "`O9` is neither a folder that --dump has written nor a level"},
      {"diff O0 O2/f7", "`f7` is not a lower precision"},
      {"diff O0 f64+graph", "has no graph mode"},
      {"diff O0 O0@", "names no file after its @"},
      {concat("diff O0 ", path("full")), "index.json"},
      {"diff O0 O2 --top -1", "--top"},
      {"train --dump 0", "must be a step, from 1"},
      {"train --dump-dir x", "[--dump] is missing"},
      {concat("train --model lenet5 --steps 2 --dump 1 --dump-dir ", path("full")),
       "is not empty. Name a new folder"},
      {concat("train --model lenet5 --steps 2 --quiet --dump 5 --dump-dir ", path("late")),
       "step 5 is not made: this run makes steps 1 to 2"},
  };
  for (const auto& [arguments, says] : cases) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.status, 2) << arguments << "\n" << outcome.errors;
    EXPECT_THAT(outcome.errors, HasSubstr(says)) << arguments;
  }
}

}  // namespace
}  // namespace mezzo::cli_tests
