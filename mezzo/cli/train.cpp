// mezzo train: trains a model on a data set.
#include <fmt/format.h>

#include "mezzo/cli/command.h"
#include "mezzo/cli/distinct_files.h"
#include "mezzo/cli/event_log.h"
#include "mezzo/cli/events.h"
#include "mezzo/cli/failures.h"
#include "mezzo/cli/json_lines.h"
#include "mezzo/cli/left_out.h"
#include "mezzo/cli/offered_values.h"
#include "mezzo/cli/options.h"
#include "mezzo/cli/print.h"
#include "mezzo/cli/processes.h"
#include "mezzo/cli/progress.h"
#include "mezzo/cli/run_report.h"
#include "mezzo/cli/stop_on_signal.h"
#include "mezzo/cli/table.h"
#include "mezzo/distributed/agreement.h"
#include "mezzo/distributed/average.h"
#include "mezzo/io/atomic_file.h"
#include "mezzo/io/safetensors.h"
#include "mezzo/models/weight_files.h"
#include "mezzo/numbers/dump.h"
#include "mezzo/train/configuration.h"
#include "mezzo/train/fine_tuning.h"

namespace mezzo::cli {
namespace {

struct TrainOptions : SharedOptions {
  std::string save{};
};

void print_result(const train::RunOptions& options, const train::RunResult& result) {
  write_out("{} at {}: {}{}", options.model, precision_of(options), text_of(result.test),
            options.watch.ema.has_value() ? " of averaged weights" : "");
  // A resumed run may already have been finished.
  if (result.total_ms > 0) {
    write_out(", {:.2f} ms/step, {}, peak {}", result.step_ms_median,
              rate_text(result.images_per_s, result.tokens_per_s), format_bytes(result.peak_bytes));
  } else {
    write_out(", no step was left");
  }
  write_out("{}\n", skipped_text(result.skipped_steps));
  if (result.early_stop.has_value()) write_out("{}\n", early_stop_text(*result.early_stop));
}

void check_files(const TrainOptions& options) {
  const NamedFile json{"--json", options.json};
  const NamedFile page{"--report", options.report};
  check_distinct({{"--weights", options.run.fine_tuning.weights},
                  {"--class-weights", options.class_weights},
                  {"--plan", options.plan},
                  json,
                  page});
  const NamedFile save{"--save", options.save};
  check_distinct({json, page, save});  // over --weights, if the user wants that
  check_distinct({{"--class-weights", options.class_weights}, {"--plan", options.plan}, save});
  check_outputs({json, page, save},
                {.folders = {{"--checkpoint-dir", options.run.checkpoints.folder},
                             {"--dump-dir", options.dump_dir},
                             {"--logdir", options.logdir}},
                 .data = options.run.data});
}

// Writes the weights and the page. If one cannot be written, the other still is, and then the error
// is thrown.
void write_both(const std::string& save, const nn::Module& trained, RunReport& report) {
  try {
    if (!save.empty()) io::write_safetensors(save, models::to_weight_file(trained));
  } catch (const Error&) {
    write_in_spite([&] { report.write(); });
    throw;
  }
  report.write();
}

void run_train(TrainOptions options) {
  check_files(options);
  train::RunOptions run = options.parsed();
  const auto processes = share_work(options, {&run, 1});
  if (processes->rank() > 0) options.save.clear();
  run.dump.made_by = std::string("mezzo ") + MEZZO_VERSION;
  apply_machine_options(options);
  const std::string name = fmt::format("{} {}", run.model, precision_of(run));
  RunReport report(report_title(name, run.data), options.report);
  const train::DataPair data = train::open_data(run);
  fit_epochs(options, train::examples_per_epoch(run, data), run);
  train::fit_to_data(run, data);
  train::set_class_weights(run.loss, data);
  JsonLines json(options.json, run.checkpoints.resume);
  json.begin(start_event("train", run, training_fields(run)));
  begin_left_out(json, data);
  Progress progress(json, run.model, options.quiet);
  report.begin(name, run, data);
  EventLog log(options.logdir, progress);
  ReportObserver observer(report, log);
  std::unique_ptr<nn::Module> trained;
  const StopOnSignal stop;
  run.should_stop = [] { return StopOnSignal::was_asked(); };
  if (!options.save.empty()) io::check_writable(options.save, "--save");
  if (!options.logdir.empty()) io::check_folder_writable(options.logdir, "--logdir");
  if (run.dump.step.has_value()) numbers::check_dump_folder(run.dump.folder, "--dump-dir");
  train::RunResult result;
  try {
    result = progress.run(run, data, observer, &trained);
    json.write(result.stopped ? stopped_event(result) : result_event(run, result, true));
  } catch (...) {
    // The completed steps are saved even though something failed after them.
    if (trained != nullptr) {
      write_in_spite([&] { write_both(options.save, *trained, report); });
    } else {
      report.end_in_spite();
    }
    distributed::meet_in_failure(*processes);
    throw;
  }
  if (!result.stopped) print_result(run, result);
  print_left_out(data);
  on_the_way([&] { write_both(options.save, *trained, report); });
  if (result.stopped) {
    // The launcher ends all processes when the first one fails, and one may still be writing.
    distributed::meet(*processes);
    leave_the_word_to_the_first(*processes);
    fail<Error>("train", "stopped by a signal after step ", result.steps,
                run.checkpoints.folder.empty() ? ". With --checkpoint-dir it could be resumed"
                                               : ". Continue with --resume");
  }
}

}  // namespace

void add_train(CLI::App& app) {
  CLI::App* command = app.add_subcommand("train", "Train a model");
  auto options = std::make_shared<TrainOptions>();
  add_precision_options(*command, *options, OfferedModels::kWithData);
  add_loss_scale_option(*command, *options);
  add_beginning_options(*command, *options);
  add_training_data_options(*command, *options);
  add_class_weights_option(*command, *options);
  add_optimizer_options(*command, *options);
  add_schedule_options(*command, *options);
  add_watch_options(*command, *options);
  add_plan_watch_option(*command, *options);
  add_execution_options(*command, *options);
  add_checkpoint_options(*command, *options);
  offer_files(command->add_option("--save", options->save, "safetensors file to write"))
      ->group(heading::kOutput);
  add_output_options(*command, *options);
  add_dump_options(*command, *options);
  add_report_options(*command, *options);
  command->callback([options] { run_train(*options); });
}

}  // namespace mezzo::cli
