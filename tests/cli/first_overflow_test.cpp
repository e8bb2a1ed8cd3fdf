// Tests --check first-overflow as users of the command see it.
#include <gmock/gmock.h>

#include "mezzo/core/error.h"
#include "tests/cli/command.h"

namespace mezzo::cli_tests {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST_F(Command, TheFirstOverflowIsNamedInEveryMode) {
  const std::string options =
      "train --model mlp --data digits --batch-size 8 --steps 6 --lr 1e30 --amp O0 --quiet";
  for (const char* mode : {"", " --graph"}) {
    const Outcome outcome =
        run(concat(options, mode, " --check first-overflow --json ", path("log"), " --report ",
                   path("page"), " --histogram-every 0"));
    ASSERT_EQ(outcome.status, 0) << outcome.errors;
    EXPECT_THAT(outcome.output, StartsWith("first overflow: "));
    EXPECT_THAT(outcome.output, StartsWith("first overflow: fc"));  // also where ReLU is joined
    EXPECT_THAT(outcome.output, HasSubstr("lower the learning rate (--lr)"));
    std::vector<Json> found;
    for (const Json& event : read_events("log")) {
      if (event["event"] == "first_overflow") found.push_back(event);
    }
    ASSERT_FALSE(found.empty());
    EXPECT_THAT(outcome.output, HasSubstr(found[0]["path"].get<std::string>() + ": "));
    EXPECT_GT(found[0]["step"], 1);
    EXPECT_LE(found[0]["call"], found[0]["calls"]);
    EXPECT_THAT(read_text("page"), HasSubstr("First overflow"));
    EXPECT_THAT(read_text("page"), HasSubstr("lower the learning rate"));
  }
}

TEST_F(Command, AnUnknownCheckIsAnError) {
  const Outcome outcome = run("train --model mlp --check everything");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.errors, HasSubstr("`everything` is not a check. Use first-overflow"));
}

}  // namespace
}  // namespace mezzo::cli_tests
