// Options for the output of a run: checkpoints, logs, a report.
#include "mezzo/cli/offered_values.h"
#include "mezzo/cli/option_words.h"

namespace mezzo::cli {
namespace {

constexpr const char* kFirstOverflow = "first-overflow";

}  // namespace

void set_check(const SharedOptions& options, train::RunOptions& run) {
  check_arg(options.check.empty() || options.check == kFirstOverflow, "--check", "`", options.check,
            "` is not a check. Use ", kFirstOverflow);
  run.check_first_overflow = options.check == kFirstOverflow;
}

void set_histograms(const SharedOptions& options, train::RunOptions& run) {
  const bool has_report = !options.report.empty();
  const bool has_output = has_report || !options.json.empty() || !options.logdir.empty();
  check_arg(has_output || (!options.histogram_every.has_value() && !run.activation_gradients),
            "--report",
            "is missing, and so are --json and --logdir: --histogram-every and "
            "--activation-gradients collect what only they show. Give a file, or leave them out");
  constexpr std::int64_t kHistogramEvery = 50;
  // A log or event files alone stay small unless histograms are asked for.
  run.histogram_every = options.histogram_every.value_or(has_report ? kHistogramEvery : 0);
  check_arg(!run.activation_gradients || run.histogram_every != 0, "--activation-gradients",
            "are counted together with those of parameters, which --histogram-every 0, the default "
            "without --report, turns off. Give a number of steps");
}

void set_dump(const SharedOptions& options, train::RunOptions& run) {
  check_arg(options.dump.has_value() || options.dump_dir.empty(), "--dump",
            "is missing: --dump-dir is the folder for the step that it names. Give both");
  if (!options.dump.has_value()) return;
  check_arg(*options.dump >= 1, "--dump", "must be a step, from 1: ", *options.dump);
  run.dump.step = options.dump;
  run.dump.folder = options.dump_dir.empty() ? concat("dump-", *options.dump) : options.dump_dir;
}

void add_dump_options(CLI::App& command, SharedOptions& options) {
  const auto add = [&](CLI::Option* option) { option->group(heading::kOutput); };
  add(command.add_option("--dump", options.dump, "Write step N, for diff"));
  add(offer_folders(command.add_option("--dump-dir", options.dump_dir, "Its folder (dump-N)")));
}

void add_checkpoint_options(CLI::App& command, SharedOptions& options) {
  train::CheckpointingOptions& checkpoints = options.run.checkpoints;
  const auto add = [&](CLI::Option* option) { option->group(heading::kCheckpoints); };
  add(offer_folders(
      command.add_option("--checkpoint-dir", checkpoints.folder, "Folder for checkpoints")));
  add(command.add_option("--checkpoint-every", checkpoints.every, "Steps between (each epoch)"));
  add(command.add_option("--keep", checkpoints.keep, "Keep the N newest; 0: all"));
  add(command.add_flag("--keep-best", checkpoints.keep_best, "Keep the best one, too"));
  add(command.add_flag("--resume", checkpoints.resume, "Continue from the newest"));
}

void add_report_options(CLI::App& command, SharedOptions& options) {
  const auto add = [&](CLI::Option* option) { option->group(heading::kOutput); };
  add(offer_folders(command.add_option("--logdir", options.logdir, "Folder for TensorBoard")));
  add(offer_files(command.add_option("--report", options.report, "HTML page about the run")));
  add(offer(command.add_option("--check", options.check, "first-overflow: its call"),
            {kFirstOverflow}));
  add(command.add_option("--histogram-every", options.histogram_every,
                         "Steps between counts (50)"));
  add(command.add_flag("--activation-gradients", options.run.activation_gradients,
                       "Gradients of outputs"));
}

void add_output_options(CLI::App& command, SharedOptions& options) {
  const auto add = [&](CLI::Option* option) { option->group(heading::kOutput); };
  add(offer_files(command.add_option("--json", options.json, "Log of JSON objects")));
  add(command.add_flag("--quiet", options.quiet, "Print no progress"));
}

}  // namespace mezzo::cli
