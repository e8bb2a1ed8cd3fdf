// The manual pages: all that --help lists stands in them, and man finds no fault with them.
#include <set>
#include <sstream>
#include <string>

#include <gmock/gmock.h>

#include "tests/cli/command.h"

namespace mezzo::cli_tests {
namespace {

using testing::HasSubstr;

// The names that begin lines and columns of a help text: `--model`, or `train` in a list of
// commands.
std::set<std::string> names_in_help(const std::string& help, const std::string& beginning) {
  std::set<std::string> names;
  std::istringstream stream(help);
  for (std::string line; std::getline(stream, line);) {
    if (!line.starts_with("  ")) continue;
    std::istringstream words(line);
    for (std::string word; words >> word;) {
      const std::string name = word.substr(0, word.find_first_of(",;:)"));
      if (name.starts_with(beginning)) names.insert(name);
    }
  }
  return names;
}

// The subcommands, as the help of the whole lists them.
std::set<std::string> commands_in(const std::string& help) {
  std::set<std::string> names;
  std::istringstream stream(help.substr(help.find("ubcommands:")));
  for (std::string line; std::getline(stream, line);) {
    if (line.starts_with("  ") && line[2] != ' ')
      names.insert(line.substr(2, line.find(' ', 2) - 2));
  }
  return names;
}

std::string in_roff(const std::string& option) {
  std::string text;
  for (const char c : option) text += c == '-' ? std::string("\\-") : std::string(1, c);
  return "\\fB" + text + "\\fR";
}

TEST_F(Command, ManualPagesHaveWhatTheHelpLists) {
  const std::set<std::string> commands = commands_in(run("--help").output);
  EXPECT_GE(commands.size(), 11U);
  const std::string whole = run("man").output;
  for (const std::string& command : commands) {
    EXPECT_THAT(whole, HasSubstr("\\fBmezzo\\-" + command + "\\fR(1)"));
    const std::string page = run("man " + command).output;
    EXPECT_THAT(page, HasSubstr(".SH NAME\nmezzo\\-" + command + " \\- "));
    for (const std::string& option : names_in_help(run(command + " --help").output, "--")) {
      EXPECT_THAT(page, HasSubstr(in_roff(option))) << command;
    }
  }
}

TEST_F(Command, ManualPagesAreWrittenAllAtOnce) {
  ASSERT_EQ(run("man --out " + folder_.string()).status, 0);
  EXPECT_EQ(read_text("mezzo.1"), run("man").output);
  for (const std::string& command : commands_in(run("--help").output)) {
    EXPECT_EQ(read_text("mezzo-" + command + ".1"), run("man " + command).output);
  }
  const Outcome both = run("man train --out " + folder_.string());
  EXPECT_EQ(both.status, 2);
  EXPECT_THAT(both.errors, HasSubstr("[--out]"));
  const Outcome unknown = run("man nothing");
  EXPECT_EQ(unknown.status, 2);
  EXPECT_THAT(unknown.errors, HasSubstr("completion and man"));
}

TEST_F(Command, ManFindsNoFaultWithItsPages) {
  if (run_line("man --version").status != 0) GTEST_SKIP() << "there is no man";
  ASSERT_EQ(run("man --out " + folder_.string()).status, 0);
  for (const auto& file : fs::directory_iterator(folder_)) {
    if (file.path().extension() != ".1") continue;
    const Outcome outcome =
        run_line("LC_ALL=C.UTF-8 MANWIDTH=80 man --warnings -E UTF-8 -l -Tutf8 -Z " +
                 file.path().string() + " >/dev/null");
    EXPECT_EQ(outcome.status, 0) << file;
    EXPECT_EQ(outcome.errors, "") << file;
  }
}

}  // namespace
}  // namespace mezzo::cli_tests
