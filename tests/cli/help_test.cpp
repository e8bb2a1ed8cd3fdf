// Tests the help of every command: grouped, and short enough for a screen.
#include <set>
#include <sstream>
#include <string>

#include <gmock/gmock.h>

#include "tests/cli/command.h"

namespace mezzo::cli_tests {
namespace {

using testing::HasSubstr;

std::vector<std::string> lines_in(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST_F(Command, TheHelpOfEveryCommandFitsAScreen) {
  constexpr std::size_t kColumns = 100;
  constexpr std::size_t kLines = 60;
  for (const std::string command :
       {"", "train", "compare", "diff", "tune", "bench", "eval", "export", "generate", "plan",
        "ops", "info", "completion", "man"}) {
    const Outcome outcome = run(command + " --help");
    EXPECT_EQ(outcome.status, 0) << command;
    EXPECT_EQ(outcome.errors, "") << command;
    const std::vector<std::string> lines = lines_in(outcome.output);
    EXPECT_LE(lines.size(), kLines) << outcome.output;
    for (const std::string& line : lines) EXPECT_LE(line.size(), kColumns) << line;
  }
}

TEST_F(Command, TheHelpListsOptionsByGroups) {
  const std::string help = run("train --help").output;
  std::size_t place = 0;
  for (const char* heading : {"Model:", "Precision:", "Fine-tuning:", "Data:", "Optimizer:",
                              "Schedule:", "Execution:", "Checkpoints:", "Output:"}) {
    const std::size_t found = help.find(std::string("\n") + heading + "\n");
    ASSERT_NE(found, std::string::npos) << heading << "\n" << help;
    EXPECT_GT(found, place) << heading;
    place = found;
  }
  EXPECT_THAT(help, HasSubstr("  --lr NUM "));
  EXPECT_THAT(help, HasSubstr("  --nesterov "));
  EXPECT_THAT(help, HasSubstr("Momentum (0.9; rmsprop: 0)\n"));
  EXPECT_THAT(help, HasSubstr("Betas (0.9,0.999; lion: 0.9,0.99)\n"));
  EXPECT_THAT(help, HasSubstr("  --freeze LIST "));
  EXPECT_THAT(help, HasSubstr("(sgd)"));
}

// The first word of each line of help that names something: "network" of "  network TEXT ...".
std::set<std::string> names_in(const std::string& help) {
  std::set<std::string> names;
  for (const std::string& line : lines_in(help)) {
    if (!line.starts_with("  ") || line.starts_with("   ")) continue;
    names.insert(line.substr(2, line.find_first_of(" ,", 2) - 2));
  }
  return names;
}

// CLI11 2.4 and later refuse a command that has both, whatever its arguments.
TEST_F(Command, NoPositionalIsCalledAsAnOption) {
  EXPECT_TRUE(names_in(run("plan --help").output).contains("--model"));
  for (const std::string command :
       {"train", "compare", "diff", "tune", "bench", "eval", "export", "generate", "plan", "data",
        "ops", "info", "completion", "man"}) {
    const std::set<std::string> names = names_in(run(command + " --help").output);
    for (const std::string& name : names) {
      EXPECT_FALSE(names.contains("--" + name)) << command << ' ' << name;
    }
  }
}

}  // namespace
}  // namespace mezzo::cli_tests
