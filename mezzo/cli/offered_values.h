// What shells offer for the value of an option. It stands in the option itself, so that completions
// are made from what the command reads, and from nothing else.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

namespace mezzo::cli {

// What may stand for the value. Nothing of all: any text or number.
struct OfferedValues {
  std::vector<std::string> words{};  // one that ends in `:` is followed by a folder
  bool files = false;
  bool folders = false;
};

// Each returns the option, offers its values, and refuses none: whoever reads them does.
CLI::Option* offer(CLI::Option* option, const std::vector<std::string>& words);
CLI::Option* offer_files(CLI::Option* option);
CLI::Option* offer_folders(CLI::Option* option);
CLI::Option* offer_with_folders(CLI::Option* option, std::vector<std::string> words);

// What is offered for the option.
OfferedValues offered_for(CLI::Option& option);

// The words of a list as messages and help texts put it: of `digits, mnist:DIR or images:DIR`, the
// words `digits`, `mnist:` and `images:`.
std::vector<std::string> words_in(std::string_view list);

// Levels as --amp takes them: `O2`, `O2/bf16` and so on.
std::vector<std::string> level_words();
// The names of all operations.
std::vector<std::string> operation_words();

}  // namespace mezzo::cli
