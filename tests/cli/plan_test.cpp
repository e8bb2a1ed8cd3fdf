// Tests the terminal output of `mezzo plan`: lines of 100 columns that leave nothing out.
#include <algorithm>
#include <set>
#include <sstream>
#include <string_view>

#include <gmock/gmock.h>

#include "mezzo/core/error.h"
#include "tests/cli/command.h"

namespace mezzo::cli_tests {
namespace {

using testing::HasSubstr;

constexpr std::size_t kColumns = 100;

std::size_t longest_line(const std::string& text) {
  std::size_t longest = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) longest = std::max(longest, line.size());
  return longest;
}

struct PlanTable : Command {
  // The command's output, and the events that it writes.
  Outcome plan(const std::string& arguments) {
    fs::remove(path("plan.json"));
    Outcome outcome = run(concat("plan ", arguments, " --json ", path("plan.json")));
    EXPECT_EQ(outcome.status, 0) << outcome.errors;
    events = events_of(read_events("plan.json"), "op");
    return outcome;
  }

  std::vector<Json> events;  // of operations
};

TEST_F(PlanTable, FitsAHundredColumns) {
  for (const char* model : {"mlp", "lenet5", "resnet20", "resnet50"}) {
    for (const char* options :
         {"--amp O0", "--amp O1", "--amp O2", "--amp O3 --dtype f16", "--amp auto",
          "--amp O3 --keep-batchnorm-fp32 false", "--amp O1 --keep-f32 linear --lower relu"}) {
      for (const char* mode : {"", " --graph"}) {
        if (std::string_view(model) == "resnet50" && !std::string_view(mode).empty()) continue;
        const std::string arguments = concat(model, " ", options, mode);
        EXPECT_LE(longest_line(plan(arguments).output), kColumns) << arguments;
      }
    }
  }
}

// The reasons below the table, in the order of their numbers; the lines of each are joined.
std::vector<std::string> reasons_in(const std::string& output) {
  std::vector<std::string> reasons;
  const std::size_t begin = output.find("why  rule");
  if (begin == std::string::npos) return reasons;
  std::istringstream lines(output.substr(begin));
  std::string line;
  std::getline(lines, line);
  const std::size_t column = line.find("reason");
  std::getline(lines, line);
  while (std::getline(lines, line) && !line.empty()) {
    const std::string part = line.size() > column ? line.substr(column) : "";
    if (line.find_first_not_of(' ') < std::string_view("why").size()) {
      EXPECT_EQ(std::stoul(line), reasons.size() + 1);
      reasons.push_back(part);
    } else if (!part.empty()) {
      reasons.back() += ' ' + part;
    }
  }
  return reasons;
}

TEST_F(PlanTable, NamesEachReasonOnceAndItsNumberInEveryRow) {
  const Outcome outcome = plan("resnet50 --amp O2");
  EXPECT_THAT(outcome.output, HasSubstr("conv2d 53, linear 1"));
  const std::vector<std::string> reasons = reasons_in(outcome.output);
  std::set<std::string> expected;
  for (const Json& event : events) expected.insert(event["reason"]);
  ASSERT_GE(expected.size(), 4U);
  EXPECT_THAT(reasons, testing::UnorderedElementsAreArray(expected));
  // There is a row for each operation, in call order, which ends with the number of its reason.
  std::istringstream rows(outcome.output);
  std::string line;
  std::getline(rows, line);
  EXPECT_TRUE(line.ends_with("why")) << line;
  std::getline(rows, line);
  for (const Json& event : events) {
    ASSERT_TRUE(std::getline(rows, line));
    std::istringstream cells(line);
    std::string first;
    cells >> first;
    const auto path = event["path"].get<std::string>();
    EXPECT_EQ(first, path.empty() ? event["op"].get<std::string>() : path);
    const std::size_t number = std::stoul(line.substr(line.find_last_of(' ')));
    ASSERT_GE(number, 1U);
    ASSERT_LE(number, reasons.size());
    EXPECT_EQ(reasons[number - 1], event["reason"].get<std::string>()) << line;
  }
}

TEST_F(PlanTable, WideHasTheReasonInEveryRowAndTheSameEvents) {
  for (const char* mode : {"", " --graph --amp auto"}) {
    plan(concat("resnet20", mode));
    const std::vector<Json> narrow = events;
    const Outcome wide = plan(concat("resnet20 --wide", mode));
    EXPECT_EQ(events, narrow) << mode;
    std::istringstream rows(wide.output);
    std::string line;
    std::getline(rows, line);
    EXPECT_TRUE(line.ends_with("reason")) << line;
    std::getline(rows, line);
    for (const Json& event : events) {
      ASSERT_TRUE(std::getline(rows, line));
      EXPECT_TRUE(line.ends_with(event["reason"].get<std::string>())) << line;
    }
  }
}

TEST_F(PlanTable, AShortPlanKeepsItsReasonsInTheRows) {
  const Outcome outcome = plan("lenet5 --amp O0");
  EXPECT_THAT(reasons_in(outcome.output), testing::IsEmpty());
  EXPECT_EQ(plan("lenet5 --amp O0 --wide").output, outcome.output);
}

}  // namespace
}  // namespace mezzo::cli_tests
