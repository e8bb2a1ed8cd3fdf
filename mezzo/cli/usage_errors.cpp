#include "mezzo/cli/usage_errors.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

namespace mezzo::cli {
namespace {

// The number of letters to insert, delete or exchange between `a` and `b` (Levenshtein distance).
std::size_t edits_between(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t exchanged = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({exchanged, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

// The name that `word` probably misspells, as the end of a message; empty if there is none.
std::string suggestion(const std::string& word, const std::vector<std::string>& names) {
  constexpr std::size_t kMostEdits = 2;
  const auto edits = [&](const std::string& name) { return edits_between(word, name); };
  const auto nearest = std::ranges::min_element(names, {}, edits);
  if (nearest == names.end() || edits(*nearest) > kMostEdits) return {};
  return ". Did you mean `" + *nearest + "`?";
}

std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::string unexpected(const CLI::App& command, const std::string& word) {
  if (!word.starts_with('-')) return "`" + word + "` does not belong to an option";
  const std::string name = word.substr(0, word.find('='));
  if (std::ranges::count(option_names(command), name) > 0) {
    return "`" + name + "` follows `--`, after which no options are read";
  }
  return "there is no option `" + name + "`" + suggestion(name, option_names(command));
}

// The option in "--name: ...", or in "name was ..." of a flag.
std::string option_of(const std::string& text) {
  const std::string name = text.substr(0, text.find_first_of(": "));
  return name.starts_with('-') ? name : "--" + name;
}

std::string mismatch(const std::string& text) {
  const std::string option = option_of(text);
  if (text.ends_with("missing")) return "a value is missing after `" + option + "`";
  if (text.find("At Most 1") != std::string::npos) return "`" + option + "` was given twice";
  if (text.find("flag override") != std::string::npos) return "`" + option + "` takes no value";
  return text;
}

// Of `network excludes --model`, where a positional stands for the option's value, or of `--plan
// excludes --amp`.
std::string exclusion(const std::string& text) {
  const std::string one = text.substr(0, text.find(' '));
  const std::string other = text.substr(text.rfind(' ') + 1);
  if (!one.starts_with('-')) {
    return "the " + one + " is given twice, with and without " + other;
  }
  return "`" + one + "` and `" + other + "` contradict each other. Leave one of the two out";
}

std::string what_is_wrong(const CLI::ParseError& error, const CLI::App& app,
                          const CLI::App* command) {
  const bool has_more = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
  const bool lacks_some = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  if (has_more || (lacks_some && command == nullptr)) {
    const std::vector<std::string> left = app.remaining(true);
    if (!left.empty()) return unexpected(command != nullptr ? *command : app, left.front());
  }
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) return mismatch(error.what());
  if (lacks_some && command == nullptr) return "a command is missing";
  if (dynamic_cast<const CLI::ExcludesError*>(&error) != nullptr) return exclusion(error.what());
  return error.what();
}

// For a list that names something; if it names nothing, the parser finds no value.
bool has_empty_entry(const std::string& list) {
  if (list.find_first_not_of(',') == std::string::npos) return false;
  return list.front() == ',' || list.back() == ',' || list.find(",,") != std::string::npos;
}

}  // namespace

std::string usage_error(const CLI::ParseError& error, const CLI::App& app,
                        const CLI::App* command) {
  const std::string name = command != nullptr ? command->get_name() : std::string();
  const std::string wrong = what_is_wrong(error, app, command);
  return (name.empty() ? "" : "[" + name + "] ") + wrong + (wrong.ends_with('?') ? " " : ". ") +
         "See `mezzo " + name + (name.empty() ? "" : " ") + "--help`";
}

std::string empty_entry_in(const CLI::App& command, const std::vector<std::string>& arguments) {
  const CLI::Option* option = nullptr;  // the option that the current arguments belong to
  for (const std::string& argument : arguments) {
    std::string value = argument;
    if (argument.starts_with('-')) {
      const std::size_t equals = argument.find('=');
      option = command.get_option_no_throw(argument.substr(0, equals));
      value = equals == std::string::npos ? "" : argument.substr(equals + 1);
    }
    const bool is_list = option != nullptr && option->get_delimiter() == ',';
    if (is_list && has_empty_entry(value)) {
      return "[" + command.get_name() + "] " + option->get_name() + ": the list `" + value +
             "` has an empty entry. Remove the comma, or add an entry";
    }
  }
  return {};
}

std::string unknown_command(const CLI::App& app, const std::string& word) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  const std::string meant = suggestion(word, names);
  return "there is no command `" + word + "`" + meant + (meant.empty() ? ". " : " ") +
         "See `mezzo --help`";
}

}  // namespace mezzo::cli
