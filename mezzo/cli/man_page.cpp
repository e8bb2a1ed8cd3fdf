#include "mezzo/cli/man_page.h"

#include <algorithm>
#include <cctype>

namespace mezzo::cli {
namespace {

// Text as roff shows it: a bare `-` would be a hyphen, which nobody can copy into a command line.
std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\') {
      result += "\\e";
    } else if (c == '-') {
      result += "\\-";
    } else if (c == '\'') {
      result += "\\(aq";
    } else {
      result += c;
    }
  }
  return result.starts_with('.') ? "\\&" + result : result;
}

std::string bold(const std::string& text) { return "\\fB" + escaped(text) + "\\fR"; }
std::string italic(const std::string& text) { return "\\fI" + escaped(text) + "\\fR"; }

std::string in_capitals(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text;
}

// As names of pages have no capitals of their own, neither have the texts after them.
std::string without_capital(std::string text) {
  const bool is_word = text.size() > 1 && std::islower(static_cast<unsigned char>(text[1])) != 0;
  if (is_word) text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  return text;
}

std::string entry(const OptionEntry& option) {
  std::string text = ".TP\n" + bold(option.name);
  if (!option.is_positional() && !option.value.empty()) text += " " + italic(option.value);
  text += "\n" + escaped(option.help);
  if (!option.usual.empty()) text += " (" + escaped(option.usual) + ")";
  if (option.is_required) text += ", required";
  return text + "\n";
}

// The options under their headings, which stand in the order in which commands add them.
std::string options_of(const CommandEntry& command) {
  std::string text;
  std::string group;
  for (const OptionEntry& option : command.options) {
    if (option.is_positional()) text += entry(option);
  }
  std::vector<std::string> groups;
  for (const OptionEntry& option : command.options) {
    if (option.is_positional() || std::ranges::count(groups, option.group) > 0) continue;
    groups.push_back(option.group);
  }
  for (const std::string& heading : groups) {
    if (groups.size() > 1) text += ".SS " + heading + "\n";
    for (const OptionEntry& option : command.options) {
      if (!option.is_positional() && option.group == heading) text += entry(option);
    }
  }
  return text + (groups.size() > 1 ? ".SS Help\n" : "") +
         ".TP\n\\fB\\-\\-help\\fR\nPrint a summary of this page.\n";
}

std::string synopsis(const CommandEntry& whole, const CommandEntry& command) {
  std::string text = ".SH SYNOPSIS\n" + bold(whole.name) + " ";
  if (&whole == &command) return text + italic("command") + " [" + italic("options") + "]\n";
  text += bold(command.name);
  for (const OptionEntry& option : command.options) {
    if (!option.is_positional()) continue;
    const std::string name = italic(option.name);
    text += option.is_required ? " " + name : " [" + name + "]";
  }
  return text + " [" + italic("options") + "]\n";
}

std::string commands_of(const std::vector<CommandEntry>& tree) {
  std::string text = ".SH COMMANDS\nEach has a page of its own.\n";
  for (std::size_t i = 1; i < tree.size(); ++i) {
    text += ".TP\n" + bold(page_name(tree[0], tree[i])) + "(1)\n" + escaped(tree[i].help) + "\n";
  }
  return text;
}

// All other pages.
std::string see_also(const std::vector<CommandEntry>& tree, const CommandEntry& command) {
  std::string text;
  for (const CommandEntry& other : tree) {
    if (&other == &command) continue;
    text += (text.empty() ? "" : ",\n") + bold(page_name(tree[0], other)) + "(1)";
  }
  return ".SH SEE ALSO\n" + text + "\n";
}

}  // namespace

std::string page_name(const CommandEntry& whole, const CommandEntry& command) {
  return &whole == &command ? whole.name : whole.name + "-" + command.name;
}

std::string man_page(const std::vector<CommandEntry>& tree, const CommandEntry& command,
                     const std::string& name_and_version) {
  const CommandEntry& whole = tree.front();
  const std::string name = page_name(whole, command);
  // Without a date, so that the same sources make the same page.
  std::string page = ".\\\" Written by `mezzo man`.\n.TH " + in_capitals(name) + " 1 \"\" \"" +
                     name_and_version + "\" \"User Commands\"\n";
  page += ".SH NAME\n" + escaped(name) + " \\- " + escaped(without_capital(command.help)) + "\n";
  page += synopsis(whole, command);
  page += ".SH DESCRIPTION\n" + escaped(command.help) + ".\n";
  if (&whole == &command) page += commands_of(tree);
  page += ".SH OPTIONS\n" + options_of(command);
  page +=
      ".SH EXIT STATUS\n0 if all was done, 1 if it failed while it ran, 2 for wrong usage or "
      "input.\n";
  return page + see_also(tree, command);
}

}  // namespace mezzo::cli
