// The `mezzo` command. Exit status: 0 done, 1 failed while running, 2 wrong usage or unreadable
// input.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <string>

#include <poll.h>
#include <unistd.h>

#include "mezzo/cli/command.h"
#include "mezzo/cli/help.h"
#include "mezzo/cli/print.h"
#include "mezzo/cli/stop_on_signal.h"
#include "mezzo/cli/strict_values.h"
#include "mezzo/cli/usage_errors.h"
#include "mezzo/core/error.h"
#include "mezzo/nn/module.h"

namespace {

constexpr int kFailed = 1;
constexpr int kWrongUsage = 2;

// Prints an error on one line, whatever the names from files and the command line hold.
int report(const std::string& message, int status) {
  std::fprintf(stderr, "mezzo: %s\n", mezzo::cli::on_one_line(message).c_str());
  return status;
}

int report(const std::exception& error, int status) {
  return report(std::string(error.what()), status);
}

// The message for weights that do not match. The library advises a parameter of load_state(), which
// the command line cannot give, so this names an option instead.
std::string in_terms_of_options(const mezzo::nn::StateMismatch& error, const CLI::App* command) {
  const bool has_head = command != nullptr && command->get_option_no_throw("--head") != nullptr;
  return error.difference() +
         ". Use the --model, image size and number of classes that the weights were made for" +
         (has_head ? ", or, to train a new last layer, --head new" : "");
}

// The subcommand of that name, or null.
const CLI::App* find_command(const CLI::App& app, const std::string& name) {
  const auto commands = app.get_subcommands([](const CLI::App*) { return true; });
  const auto found = std::ranges::find(commands, name, &CLI::App::get_name);
  return found != commands.end() ? *found : nullptr;
}

int run(int argc, char** argv) {
  CLI::App app{"Mixed-precision training for C++", "mezzo"};
  app.require_subcommand(1);
  app.set_version_flag("--version", MEZZO_VERSION);
  mezzo::cli::add_train(app);
  mezzo::cli::add_compare(app);
  mezzo::cli::add_diff(app);
  mezzo::cli::add_bench(app);
  mezzo::cli::add_eval(app);
  mezzo::cli::add_generate(app);
  mezzo::cli::add_export(app);
  mezzo::cli::add_plan(app);
  mezzo::cli::add_tune(app);
  mezzo::cli::add_ops(app);
  mezzo::cli::add_data(app);
  mezzo::cli::add_tokenize(app);
  mezzo::cli::add_info(app);
  mezzo::cli::add_completion(app);
  mezzo::cli::add_man(app);
  mezzo::cli::refuse_odd_values(app);
  mezzo::cli::lay_out_help(app);
  const std::string word = argc > 1 ? argv[1] : "";
  const CLI::App* const command = find_command(app, word);
  if (!word.empty() && word[0] != '-' && command == nullptr) {
    return report(mezzo::cli::unknown_command(app, word), kWrongUsage);
  }
  const std::string empty_entry =
      command != nullptr ? mezzo::cli::empty_entry_in(*command, {argv + 2, argv + argc})
                         : std::string();
  if (!empty_entry.empty()) return report(empty_entry, kWrongUsage);
  try {
    app.parse(argc, argv);
    return 0;
  } catch (const mezzo::nn::StateMismatch& error) {
    return report(in_terms_of_options(error, command), kWrongUsage);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    return report(mezzo::cli::usage_error(error, app, command), kWrongUsage);
  }
}

// Ignores signals that would end a run where a failing write can report the error.
void leave_failures_to_writes() {
#if defined(SIGXFSZ)
  std::signal(SIGXFSZ, SIG_IGN);  // a file beyond `ulimit -f`
#endif
#if defined(SIGPIPE)
  std::signal(SIGPIPE, SIG_IGN);  // a pipe whose reader is gone
#endif
}

// Whether standard output is a pipe whose reader is gone. The pipe itself is queried: at the end it
// is not known which of many writes failed, and why.
bool is_reader_gone() {
  pollfd output{.fd = STDOUT_FILENO, .events = POLLOUT, .revents = 0};
  return poll(&output, 1, 0) == 1 && (output.revents & POLLERR) != 0;
}

// The exit status of a finished command: its own, unless its output was lost. A reader that leaves
// early, as `head` does, has read what it wanted.
int status_with_output(int status) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
  if (is_reader_gone()) return status;
  return report("[output] writing to standard output failed. Is the disk full?", kFailed);
}

}  // namespace

int main(int argc, char** argv) {
  mezzo::cli::wait_for_signals();
  leave_failures_to_writes();
  try {
    return status_with_output(run(argc, argv));
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
