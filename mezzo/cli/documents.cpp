// mezzo man and mezzo completion: what is made of the parser itself.
#include <cstddef>
#include <memory>
#include <span>

#include "mezzo/cli/command.h"
#include "mezzo/cli/completion.h"
#include "mezzo/cli/man_page.h"
#include "mezzo/cli/offered_values.h"
#include "mezzo/cli/print.h"
#include "mezzo/core/error.h"
#include "mezzo/io/atomic_file.h"

namespace mezzo::cli {
namespace {

struct ManOptions {
  std::string name{};    // of the subcommand; empty: of the whole command
  std::string folder{};  // for the pages of all
};

// `mezzo 0.1.0`.
std::string name_and_version(const CLI::App& app) { return app.get_name() + " " + MEZZO_VERSION; }

// The subcommand of that name in the tree, or the whole command for an empty name.
const CommandEntry& command_in(const std::vector<CommandEntry>& tree, const std::string& name) {
  if (name.empty()) return tree.front();
  std::string names;
  for (std::size_t i = 1; i < tree.size(); ++i) {
    if (tree[i].name == name) return tree[i];
    names += (i == 1 ? "" : i + 1 == tree.size() ? " and " : ", ") + tree[i].name;
  }
  fail<ArgumentError>("man", "there is no command `", name, "`. There are ", names);
}

void write_pages(const std::vector<CommandEntry>& tree, const std::string& foot,
                 const std::string& folder) {
  for (const CommandEntry& command : tree) {
    const std::string path = folder + "/" + page_name(tree.front(), command) + ".1";
    const std::string page = man_page(tree, command, foot);
    io::write_file(path, std::as_bytes(std::span(page)), "--out");
  }
}

void run_man(CLI::App& app, const ManOptions& options) {
  check_arg(options.name.empty() || options.folder.empty(), "--out",
            "writes the pages of all commands, not that of `", options.name,
            "` alone. Leave one of the two out");
  const std::vector<CommandEntry> tree = command_tree(app);
  const std::string foot = name_and_version(app);
  if (options.folder.empty()) {
    write_out("{}", man_page(tree, command_in(tree, options.name), foot));
  } else {
    write_pages(tree, foot, options.folder);
  }
}

void run_completion(CLI::App& app, const std::string& shell) {
  check_arg(shell == "bash" || shell == "zsh", "completion", "there is none for `", shell,
            "`, but for bash and zsh. Name one of them");
  const std::vector<CommandEntry> tree = command_tree(app);
  write_out("{}", shell == "bash" ? bash_completion(tree) : zsh_completion(tree));
}

}  // namespace

void add_man(CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* other : app.get_subcommands([](CLI::App*) { return true; })) {
    names.push_back(other->get_name());
  }
  CLI::App* command = app.add_subcommand("man", "Manual page of the command, or of a subcommand");
  auto options = std::make_shared<ManOptions>();
  offer(
      command->add_option("command", options->name, "Of this command: mezzo man train | man -l -"),
      names);
  offer_folders(
      command->add_option("--out", options->folder, "Write all pages into this folder instead"));
  command->callback([&app, options] { run_man(app, *options); });
}

void add_completion(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("completion", "What a shell reads to complete this command");
  auto shell = std::make_shared<std::string>();
  offer(command->add_option("shell", *shell, "bash or zsh"), {"bash", "zsh"})->required();
  command->callback([&app, shell] { run_completion(app, *shell); });
}

}  // namespace mezzo::cli
