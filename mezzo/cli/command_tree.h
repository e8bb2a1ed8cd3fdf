// The commands and options of the parser as plain data, for what is made of them: manual pages and
// completions.
#pragma once

#include <string>
#include <vector>

#include "mezzo/cli/offered_values.h"

namespace mezzo::cli {

struct OptionEntry {
  std::string name;     // `--model`, or `network` of a positional
  std::string value{};  // `N`, `NUM`, `TEXT` or `LIST`; empty for a flag
  std::string help{};
  std::string usual{};  // what it is if it is not given; empty if that is nothing
  std::string group{};  // its heading
  OfferedValues offered{};
  bool is_required = false;

  bool is_positional() const { return !name.starts_with('-'); }
};

struct CommandEntry {
  std::string name;  // `train`
  std::string help{};
  std::vector<OptionEntry> options{};  // in the order of --help, positional ones among them
};

// Of the whole command; `app` itself comes first, under the name that it has.
std::vector<CommandEntry> command_tree(CLI::App& app);

}  // namespace mezzo::cli
