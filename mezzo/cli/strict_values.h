// Rejects option values that no command accepts.
#pragma once

#include <cstdint>
#include <string>

#include <CLI/CLI.hpp>

namespace mezzo::cli {

// Adds an option for a size whose variable is 0 if the option is not given. It refuses values below
// 1, because 0 would look as if it were not given.
CLI::Option* add_size(CLI::App& command, const std::string& name, std::int64_t& size,
                      const std::string& help);

// Makes every option of the subcommands refuse empty text, which an unset shell variable leaves and
// which would look as if the option were not given. Options also refuse integers that CLI11 reads
// differently from a person: 010 as 8, -1 as a large unsigned number, and too large a number as the
// largest one. Other numbers must be decimal, too. Flags take no value. If a command has positional
// arguments, they are not taken as further values of a list, whose values are separated by commas.
void refuse_odd_values(CLI::App& app);

}  // namespace mezzo::cli
