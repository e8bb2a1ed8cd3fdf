// Messages for command lines that name things which the command does not have.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace mezzo::cli {

// The message for an error from parsing `app`: what is wrong, with the argument, and what to do.
// `command` is the subcommand that was called, or null.
std::string usage_error(const CLI::ParseError& error, const CLI::App& app, const CLI::App* command);

// The message for a list argument with an empty entry, such as `conv1,,bn1` or `conv1,`, which the
// parser would skip. Empty if there is no such list.
std::string empty_entry_in(const CLI::App& command, const std::vector<std::string>& arguments);

// The message for an unknown word in place of a subcommand.
std::string unknown_command(const CLI::App& app, const std::string& word);

}  // namespace mezzo::cli
