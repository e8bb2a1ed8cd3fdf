// Completions for shells, made from the commands and options that the parser has.
#pragma once

#include <string>

#include "mezzo/cli/command_tree.h"

namespace mezzo::cli {

// A script that bash reads from its folder of completions; it needs nothing but bash itself.
std::string bash_completion(const std::vector<CommandEntry>& tree);
// A function for zsh, to lie in its `fpath` under the name `_mezzo`.
std::string zsh_completion(const std::vector<CommandEntry>& tree);

}  // namespace mezzo::cli
