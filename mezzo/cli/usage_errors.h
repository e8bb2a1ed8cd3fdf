// What is said of a command line that names things the command does not have.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace mezzo::cli {

// Of an error that parsing `app` threw: what is wrong, with the argument, and what to do. `command`
// is the subcommand that was called, or null.
std::string usage_error(const CLI::ParseError& error, const CLI::App& app, const CLI::App* command);

// Of a list among the arguments of the command that has an empty entry, as `conv1,,bn1` and
// `conv1,` have, which the parser would pass over; empty if there is none.
std::string empty_entry_in(const CLI::App& command, const std::vector<std::string>& arguments);

// Of a word in the place of a command's name.
std::string unknown_command(const CLI::App& app, const std::string& word);

}  // namespace mezzo::cli
