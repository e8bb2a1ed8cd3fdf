// Manual pages, made from the commands and options that the parser has.
#pragma once

#include <string>

#include "mezzo/cli/command_tree.h"

namespace mezzo::cli {

// What the page of a command is called: `mezzo` or `mezzo-train`.
std::string page_name(const CommandEntry& whole, const CommandEntry& command);

// The page of a command of the tree, in the macros of man(7): of the whole, its first, mezzo(1),
// and of a subcommand mezzo-train(1), for example. `name_and_version` stands at its foot.
std::string man_page(const std::vector<CommandEntry>& tree, const CommandEntry& command,
                     const std::string& name_and_version);

}  // namespace mezzo::cli
