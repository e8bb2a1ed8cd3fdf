// Completion for bash: a table of what may follow, and a function that is the same for all.
#include "mezzo/cli/completion.h"

namespace mezzo::cli {
namespace {

constexpr const char* kBegin =
    R"sh(# Completion of mezzo for bash, written by `mezzo completion bash`.
_mezzo() {
  local place=$COMP_CWORD current=${COMP_WORDS[COMP_CWORD]} kind=options words='' names='' option
  COMPREPLY=()
  # To bash, `=` and `:` are words of their own. After a `:` comes a folder; after `text:`, a file.
  if [[ $current == : || ${COMP_WORDS[place-1]} == : ]]; then
    [[ $current == : ]] || place=$((place - 1))
    local what=-d
    if [[ ${COMP_WORDS[place-1]} == text ]]; then what=-f; fi
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen $what -- "${current#:}")
    return
  fi
  if [[ $current == = ]]; then
    current=
  elif [[ ${COMP_WORDS[place-1]} == = ]]; then
    place=$((place - 1))
  fi
  option=${COMP_WORDS[place-1]}
  ((place > 1)) || option=
)sh";

constexpr const char* kEnd = R"sh(
  # An option takes a value that is known, or none that is.
  if [[ $kind == options ]]; then
    if [[ $current == -* || -z $words ]]; then words=$names; fi
  fi
  case $kind in
    files)
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
    folders)
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -d -- "$current") ;;
    list)
      local first=
      if [[ $current == *,* ]]; then first=${current%,*},; fi
      mapfile -t COMPREPLY < <(compgen -P "$first" -W "$words" -- "${current##*,}") ;;
    *)
      mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
      if [[ ${COMPREPLY[0]} == *: ]]; then compopt -o nospace 2>/dev/null; fi ;;
  esac
}
complete -F _mezzo mezzo
)sh";

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

// What the value of an option is, for the function above: how it is looked up, and among what.
std::string value_case(const OptionEntry& option) {
  const OfferedValues& offered = option.offered;
  std::string kind = option.value == "LIST" ? "list" : "words";
  if (offered.files) kind = "files";
  if (offered.folders) kind = "folders";
  return "        " + option.name + ") kind=" + kind + " words='" + joined(offered.words) +
         "' ;;\n";
}

std::string command_case(const CommandEntry& command) {
  std::vector<std::string> names;
  std::vector<std::string> positional;
  std::string cases;
  for (const OptionEntry& option : command.options) {
    if (option.is_positional()) {
      positional = option.offered.words;
      continue;
    }
    names.push_back(option.name);
    if (!option.value.empty()) cases += value_case(option);
  }
  names.emplace_back("--help");
  std::string text = "    " + command.name + ")\n      names='" + joined(names) + "' words='" +
                     joined(positional) + "'\n";
  if (!cases.empty()) text += "      case $option in\n" + cases + "      esac\n";
  return text + "      ;;\n";
}

}  // namespace

std::string bash_completion(const std::vector<CommandEntry>& tree) {
  std::vector<std::string> commands;
  std::string cases;
  for (std::size_t i = 1; i < tree.size(); ++i) {
    commands.push_back(tree[i].name);
    cases += command_case(tree[i]);
  }
  CommandEntry whole = tree.front();
  whole.name = "''";
  whole.options.push_back({.name = "command", .offered = {.words = commands}});
  return kBegin + std::string("  local command=${COMP_WORDS[1]}\n  ((place > 1)) || command=\n") +
         "  case $command in\n" + command_case(whole) + cases + "  esac" + kEnd;
}

}  // namespace mezzo::cli
