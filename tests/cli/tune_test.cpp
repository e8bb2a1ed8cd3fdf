// Tests mezzo tune as users of the command see it.
#include <gmock/gmock.h>

#include "mezzo/core/error.h"
#include "tests/cli/command.h"

namespace mezzo::cli_tests {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kTune = "tune --data digits --batch-size 16 --quiet";
constexpr const char* kShort = " --proof-steps 1";

TEST_F(Command, TunesAndWritesAPlan) {
  const Outcome outcome = run(concat(kTune, kShort, " --model lenet5 --out ", path("plan.json"),
                                     " --json ", path("log"), " --report ", path("page.html")));
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_THAT(outcome.output,
              AllOf(HasSubstr("O0"), HasSubstr("O2/f16"), HasSubstr("chosen"),
                    HasSubstr("conv1: conv2d"), HasSubstr("f64"), HasSubstr("--plan ")));
  const Json plan = Json::parse(read_text("plan.json"));
  EXPECT_EQ(plan["format"], "mezzo precision plan");
  EXPECT_EQ(plan["model"], "lenet5");
  EXPECT_EQ(plan["batch"], "16 of 1x28x28");
  ASSERT_EQ(plan["operations"].size(), 7);
  for (const Json& row : plan["operations"]) EXPECT_NE(row["reason"], "") << row;
  const std::vector<Json> events = read_events("log");
  EXPECT_EQ(events.front()["command"], "tune");
  EXPECT_EQ(events_of(events, "operation").size(), 7);
  EXPECT_GE(events_of(events, "setting").size(), 6);
  EXPECT_EQ(events.back()["event"], "result");
  EXPECT_LE(events.back()["error"], events.back()["error_budget"]);
  EXPECT_THAT(read_text("page.html"), AllOf(HasSubstr("The precision plan of lenet5"),
                                            HasSubstr("Time and error"), HasSubstr("Losses")));
}

// An error of a hundred-thousandth leaves nothing in 16 bits, and convolutions by direct sums where
// Winograd's method is less exact than that.
TEST_F(Command, TunesWithinABudget) {
  const Outcome outcome =
      run(concat(kTune,
                 " --model resnet20 --image-size 16 --error-examples 4 --error-batches 1 "
                 "--candidates f32,bf16 --error-budget 0.001 --out ",
                 path("plan.json")));
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  const Json plan = Json::parse(read_text("plan.json"));
  for (const Json& row : plan["operations"]) EXPECT_EQ(row["dtype"], "f32") << row;
}

TEST_F(Command, TunesALanguageModel) {
  std::ofstream text(path("text"));
  for (int i = 0; i < 200; ++i) text << "line " << i * i << '\n';
  text.close();
  const Outcome outcome =
      run(concat("tune --model gpt-tiny --data text:", path("text"),
                 " --tokens 8 --batch-size 2 --proof-steps 1 --quiet --candidates f32,bf16 "
                 "--error-batches 1 --optimizer adamw --objective memory --out ",
                 path("plan.json")));
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("operations"));
}

TEST_F(Command, TuneSaysWhatIsWrong) {
  const std::string out = concat(" --model lenet5 --out ", path("plan.json"));
  const auto expect_refused = [&](const std::string& options, const std::string& says) {
    const Outcome outcome = run(concat(kTune, out, " ", options));
    EXPECT_EQ(outcome.status, 2) << options;
    EXPECT_THAT(outcome.errors, HasSubstr(says));
    EXPECT_FALSE(fs::exists(path("plan.json")));
  };
  expect_refused("--candidates f32,f8", "[--candidates] `f8` is not a dtype to choose");
  expect_refused("--candidates f32,bf16/mxfp8", "[--candidates] `bf16/mxfp8` is not a dtype");
  expect_refused("--candidates f32,bf16,e4m3,e4m3/mxfp8", "[--candidates] e4m3 stands there twice");
  expect_refused("--candidates f32,bf16,e4m3/delayed",
                 "[tune] delayed scales are those of earlier");
  expect_refused("--candidates f32,e4m3/mxfp4", "[--candidates] unknown recipe `mxfp4`");
  expect_refused("--candidates f32", "[tune] there is no 16-bit candidate");
  expect_refused("--objective speed", "[--objective] `speed` is neither time nor memory");
  expect_refused("--error-budget 0", "[tune] the error budget must be above 0");
  expect_refused("--memory-budget 0.001", "[tune] no plan is within the budgets");
  expect_refused("--proof-steps 0", "[--proof-steps] must be at least 1: 0");
  EXPECT_EQ(run("tune --model lenet5 --data digits").status, 2);  // without --out
}

}  // namespace
}  // namespace mezzo::cli_tests
