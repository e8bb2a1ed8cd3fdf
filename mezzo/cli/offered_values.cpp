#include "mezzo/cli/offered_values.h"

#include <algorithm>
#include <sstream>

#include "mezzo/amp/level.h"
#include "mezzo/core/dtype.h"
#include "mezzo/core/error.h"
#include "mezzo/ops/dispatcher/registry.h"

namespace mezzo::cli {
namespace {

// A check of this name refuses nothing, and its description is what is offered: words with a space
// between them.
constexpr const char* kName = "offered";
constexpr const char* kFiles = "<file>";
constexpr const char* kFolders = "<folder>";

}  // namespace

CLI::Option* offer(CLI::Option* option, const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  const auto accept = [](std::string&) { return std::string(); };
  return option->check(CLI::Validator(accept, text, kName));
}

CLI::Option* offer_files(CLI::Option* option) { return offer(option, {kFiles}); }
CLI::Option* offer_folders(CLI::Option* option) { return offer(option, {kFolders}); }

CLI::Option* offer_with_folders(CLI::Option* option, std::vector<std::string> words) {
  words.emplace_back(kFolders);
  return offer(option, words);
}

OfferedValues offered_for(CLI::Option& option) {
  std::istringstream text;
  try {
    text.str(option.get_validator(kName)->get_description());
  } catch (const CLI::OptionNotFound&) {
    return {};
  }
  OfferedValues values;
  for (std::string word; text >> word;) {
    if (word == kFiles) {
      values.files = true;
    } else if (word == kFolders) {
      values.folders = true;
    } else {
      values.words.push_back(word);
    }
  }
  return values;
}

std::vector<std::string> words_in(std::string_view list) {
  constexpr std::string_view kPaths[] = {":DIR", ":FILE"};
  std::vector<std::string> words;
  std::istringstream text{std::string(list)};
  for (std::string word; text >> word;) {
    if (word == "and" || word == "or") continue;
    if (word.ends_with(',')) word.pop_back();
    for (const std::string_view path : kPaths) {
      if (word.ends_with(path)) word.resize(word.size() - path.size() + 1);
    }
    words.push_back(word);
  }
  return words;
}

std::vector<std::string> level_words() {
  std::vector<std::string> words;
  for (const amp::Level level : amp::kLevels) words.emplace_back(amp::name_of(level));
  for (const amp::Level level : amp::kLevels) {
    if (level == amp::Level::kO0) continue;  // it has no lower precision
    for (const DType dtype : kAllDTypes) {
      if (is_lower(dtype) || dtype == DType::kE4m3) words.push_back(concat(level, "/", dtype));
    }
  }
  return words;
}

std::vector<std::string> operation_words() {
  std::vector<std::string> words;
  for (const RegisteredOp& entry : registered_ops()) words.emplace_back(entry.op->name);
  std::ranges::sort(words);
  return words;
}

}  // namespace mezzo::cli
