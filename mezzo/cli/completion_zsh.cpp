// Completion for zsh: what _arguments reads.
#include "mezzo/cli/completion.h"

namespace mezzo::cli {
namespace {

// For a text between single quotes, in which `letters` mean something to _arguments.
std::string escaped(const std::string& text, const std::string& letters) {
  std::string result;
  for (const char c : text) {
    if (c == '\'') {
      result += "'\\''";
      continue;
    }
    if (letters.find(c) != std::string::npos) result += '\\';
    result += c;
  }
  return result;
}

std::string words_of(const OfferedValues& offered) {
  std::string text;
  for (const std::string& word : offered.words) {
    text += (text.empty() ? "" : " ") + escaped(word, ":\\");
  }
  return text;
}

// What makes the value.
std::string action(const OptionEntry& option) {
  const OfferedValues& offered = option.offered;
  if (offered.files) return "_files";
  if (offered.folders) return "_files -/";
  if (offered.words.empty()) return " ";
  if (option.value == "LIST") return "_sequence compadd - " + words_of(offered);
  return "(" + words_of(offered) + ")";
}

std::string specification(const OptionEntry& option) {
  const std::string message = escaped(option.help, ":\\");
  if (option.is_positional()) return "'1:" + message + ":" + action(option) + "'";
  const std::string name = option.name + (option.value.empty() ? "" : "=");
  std::string text = "'" + name + "[" + escaped(option.help, "[]\\") + "]";
  if (!option.value.empty()) text += ":" + option.value + ":" + action(option);
  return text + "'";
}

std::string arguments_of(const CommandEntry& command, const std::string& indent) {
  std::string text = "_arguments";
  for (const OptionEntry& option : command.options) {
    text += " \\\n" + indent + specification(option);
  }
  return text + " \\\n" + indent + "'--help[Print a summary of the options]'";
}

}  // namespace

std::string zsh_completion(const std::vector<CommandEntry>& tree) {
  std::string commands;
  std::string cases;
  for (std::size_t i = 1; i < tree.size(); ++i) {
    const CommandEntry& command = tree[i];
    commands += "    '" + command.name + ":" + escaped(command.help, ":\\") + "'\n";
    cases += "    " + command.name + ")\n      " + arguments_of(command, "        ") + " ;;\n";
  }
  return "#compdef mezzo\n"
         "# Completion of mezzo for zsh, written by `mezzo completion zsh`.\n"
         "_mezzo() {\n"
         "  local curcontext=$curcontext state line\n"
         "  local -a commands=(\n" +
         commands + "  )\n  " + arguments_of(tree.front(), "    ") +
         " \\\n    '1:command:->command' '*::argument:->argument' && return\n"
         "  if [[ $state == command ]]; then\n"
         "    _describe command commands\n"
         "    return\n"
         "  fi\n"
         "  case $words[1] in\n" +
         cases + "  esac\n}\n_mezzo \"$@\"\n";
}

}  // namespace mezzo::cli
