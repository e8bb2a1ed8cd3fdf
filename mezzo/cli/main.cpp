// The `mezzo` command. Exit status: 0 done, 1 failed while running, 2 wrong usage or unreadable
// input.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>

#include "mezzo/cli/command.h"
#include "mezzo/core/error.h"

namespace {

constexpr int kFailed = 1;
constexpr int kWrongUsage = 2;

int report(const std::exception& error, int status) {
  std::fprintf(stderr, "mezzo: %s\n", error.what());
  return status;
}

bool is_command(const CLI::App& app, const std::string& name) {
  const auto commands = app.get_subcommands([](const CLI::App*) { return true; });
  return std::any_of(commands.begin(), commands.end(),
                     [&](const CLI::App* command) { return command->get_name() == name; });
}

int run(int argc, char** argv) {
  CLI::App app{"Mixed-precision training for C++"};
  app.require_subcommand(1);
  app.set_version_flag("--version", MEZZO_VERSION);
  app.get_formatter()->column_width(34);
  mezzo::cli::add_train(app);
  mezzo::cli::add_compare(app);
  mezzo::cli::add_bench(app);
  mezzo::cli::add_eval(app);
  mezzo::cli::add_export(app);
  mezzo::cli::add_plan(app);
  mezzo::cli::add_ops(app);
  mezzo::cli::add_info(app);
  if (argc > 1 && argv[1][0] != '-' && !is_command(app, argv[1])) {
    std::fprintf(stderr, "mezzo: there is no command `%s`. See `mezzo --help`\n", argv[1]);
    return kWrongUsage;
  }
  try {
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    std::fprintf(stderr, "mezzo: %s. See `mezzo --help`\n", error.what());
    return kWrongUsage;
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const mezzo::ArgumentError& error) {
    return report(error, kWrongUsage);
  } catch (const mezzo::DiskError& error) {
    return report(error, kFailed);
  } catch (const mezzo::FileError& error) {
    return report(error, kWrongUsage);
  } catch (const std::exception& error) {
    return report(error, kFailed);
  }
}
