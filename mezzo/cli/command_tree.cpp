#include "mezzo/cli/command_tree.h"

#include "mezzo/cli/help.h"

namespace mezzo::cli {
namespace {

OptionEntry entry_of(CLI::Option& option) {
  const bool is_positional = option.get_positional();
  return {.name = is_positional ? option.get_name(true) : "--" + option.get_lnames().front(),
          .value = value_name(option),
          .help = option.get_description(),
          .usual = option.get_default_str(),
          .group = is_positional ? "" : option.get_group(),
          .offered = offered_for(option),
          .is_required = option.get_required()};
}

CommandEntry entry_of(CLI::App& command) {
  CommandEntry entry{.name = command.get_name(), .help = command.get_description()};
  for (CLI::Option* option : command.get_options()) {
    if (option != command.get_help_ptr()) entry.options.push_back(entry_of(*option));
  }
  return entry;
}

}  // namespace

std::vector<CommandEntry> command_tree(CLI::App& app) {
  std::vector<CommandEntry> tree{entry_of(app)};
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) {
    tree.push_back(entry_of(*command));
  }
  return tree;
}

}  // namespace mezzo::cli
