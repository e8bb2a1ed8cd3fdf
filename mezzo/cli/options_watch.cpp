// Options for what follows the validation of a run.
#include "mezzo/cli/offered_values.h"
#include "mezzo/cli/option_words.h"

namespace mezzo::cli {

void set_watch(const SharedOptions& options, train::RunOptions& run) {
  train::WatchOptions& watch = run.watch;
  check_arg(watch.ema.has_value() || !watch.ema_warmup, "--ema-warmup",
            "is used only by --ema. Give that, or leave it out");
  const bool is_plateau = run.schedule.kind == train::ScheduleKind::kPlateau;
  set_if_read(options.monitor, is_plateau || watch.early_stop.has_value(), "--monitor",
              "--early-stop and --lr-schedule plateau", watch.monitor);
}

void add_watch_options(CLI::App& command, SharedOptions& options) {
  const auto group = [](CLI::Option* option) { option->group(heading::kWatch); };
  train::WatchOptions& watch = options.run.watch;
  group(command.add_option("--eval-every", watch.eval_every, "Steps between (epochs)"));
  group(command.add_option("--ema", watch.ema, "Decay of averaged weights"));
  group(command.add_flag("--ema-warmup", watch.ema_warmup, "Lower decay at first"));
  group(command.add_option("--early-stop", watch.early_stop, "Patience in epochs"));
  group(offer(command.add_option("--monitor", options.monitor, "loss or accuracy (loss)"),
              {"loss", "accuracy"}));
}

}  // namespace mezzo::cli
