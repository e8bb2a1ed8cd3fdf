#include "mezzo/cli/help.h"

#include <algorithm>
#include <memory>
#include <vector>

namespace mezzo::cli {
namespace {

constexpr std::size_t kColumns = 100;
constexpr std::size_t kHalf = kColumns / 2;
constexpr std::size_t kNames = 22;  // a help text begins after this column, or later

std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(text.size(), width), ' ');
  return text;
}

std::string entry_of(const CLI::Option& option, bool is_positional) {
  const std::string name =
      is_positional ? option.get_name(true) : "--" + option.get_lnames().front();
  const std::string value = is_positional ? "" : value_name(option);
  std::string text = padded("  " + name + (value.empty() ? "" : " " + value), kNames);
  const std::string usual = option.get_default_str();
  text += "  " + option.get_description();
  if (!usual.empty()) text += " (" + usual + ")";
  if (option.get_required()) text += ", required";
  return text;
}

// The line, broken into as many lines as it needs.
std::string wrapped(const std::string& line) {
  if (line.size() <= kColumns) return line + "\n";
  const std::size_t end = line.rfind(' ', kColumns);
  return line.substr(0, end) + "\n" + wrapped(std::string(kNames + 2, ' ') + line.substr(end + 1));
}

}  // namespace

std::string value_name(const CLI::Option& option) {
  if (option.get_expected_max() == 0) return "";
  if (option.get_delimiter() != '\0') return "LIST";
  const std::string type = option.get_type_name();
  if (type.starts_with("FLOAT")) return "NUM";
  return type.starts_with("INT") || type.starts_with("UINT") ? "N" : "TEXT";
}

std::string HelpFormatter::make_usage(const CLI::App* app, std::string name) const {
  const std::string usage = CLI::Formatter::make_usage(app, name);
  return usage.substr(0, usage.find_last_not_of('\n') + 1) + "\n";
}

std::string HelpFormatter::make_group(std::string group, bool is_positional,
                                      std::vector<const CLI::Option*> options) const {
  std::string text = group + ":\n";
  std::string line;
  for (const CLI::Option* option : options) {
    const std::string entry = entry_of(*option, is_positional);
    const bool may_share = !line.empty() && line.size() < kHalf && entry.size() <= kHalf;
    if (may_share) {
      text += padded(line, kHalf) + entry + "\n";
      line.clear();
      continue;
    }
    if (!line.empty()) text += wrapped(line);
    line = entry;
  }
  if (!line.empty()) text += wrapped(line);
  text.pop_back();  // CLI11 ends the last line itself, except of positionals
  return is_positional ? text + "\n" : text;
}

void lay_out_help(CLI::App& app) {
  const auto formatter = std::make_shared<HelpFormatter>();
  app.formatter(formatter);
  for (CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    command->formatter(formatter);
    command->get_help_ptr()->group("");  // its readers already know it
  }
}

}  // namespace mezzo::cli
