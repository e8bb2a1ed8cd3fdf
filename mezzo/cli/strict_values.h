// What no option of any command takes.
#pragma once

#include <CLI/CLI.hpp>

namespace mezzo::cli {

// Has every option of the subcommands refuse empty text, which a variable that is not set leaves
// and which would read as if the option were not there, and integers that CLI11 reads otherwise
// than a person: 010 as 8, -1 as a large unsigned number, and what is too large as the largest.
void refuse_odd_values(CLI::App& app);

}  // namespace mezzo::cli
