// The layout of `--help`.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

namespace mezzo::cli {

// Lists options under their headings, in the order in which they were added, within 100 columns.
// Two adjacent short ones share a line, so that the help of a command with sixty options fits a
// screen.
class HelpFormatter final : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* app, std::string name) const override;
  std::string make_group(std::string group, bool is_positional,
                         std::vector<const CLI::Option*> options) const override;
};

// What help calls the value of an option: `N`, `NUM`, `TEXT` or `LIST`; empty for a flag.
std::string value_name(const CLI::Option& option);

// Has the help of the command and of all its subcommands laid out so.
void lay_out_help(CLI::App& app);

}  // namespace mezzo::cli
