// What no option of any command takes.
#pragma once

#include <cstdint>
#include <string>

#include <CLI/CLI.hpp>

namespace mezzo::cli {

// An option for a size that is 0 as long as it is not given: it refuses values below 1, of which 0
// would read as if it were not there.
CLI::Option* add_size(CLI::App& command, const std::string& name, std::int64_t& size,
                      const std::string& help);

// Has every option of the subcommands refuse empty text, which a variable that is not set leaves
// and which would read as if the option were not there, and integers that CLI11 reads otherwise
// than a person: 010 as 8, -1 as a large unsigned number, and what is too large as the largest.
// Other numbers are decimal, too. Flags take no value. Where a command has arguments beside its
// options, those are not taken for more values of a list, which commas separate.
void refuse_odd_values(CLI::App& app);

}  // namespace mezzo::cli
