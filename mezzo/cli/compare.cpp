// mezzo compare: trains one model from the same weights in several precisions.
#include <utility>

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
#include "mezzo/train/configuration.h"
#include "mezzo/train/fine_tuning.h"

namespace mezzo::cli {
namespace {

struct CompareOptions : SharedOptions {
  std::vector<std::string> levels{"O0", "O2"};
};

std::vector<std::string> table_header(bool has_tokens) {
  return {"network", "level",       "dtype",   "ms/step", has_tokens ? "tokens/s" : "images/s",
          "epochs",  "peak memory", "skipped", "loss",    has_tokens ? "perplexity" : "accuracy"};
}

// `O2`, or `plan`.
std::string level_of(const train::RunOptions& run) {
  return run.plan != nullptr ? "plan" : amp::name_of(run.policy.level);
}

std::vector<std::string> table_row(const train::RunOptions& run, const train::RunResult& result) {
  const bool is_language = !result.test.has_accuracy();
  return {run.model,
          level_of(run),
          name_of(run.policy.named_dtype()),
          fmt::format("{:.2f}", result.step_ms_median),
          fmt::format("{:.0f}", is_language ? result.tokens_per_s : result.images_per_s),
          fmt::format("{}", result.epochs),
          format_bytes(result.peak_bytes),
          fmt::format("{}", result.skipped_steps),
          fmt::format("{:.4f}", without_sign(result.test.loss)),
          is_language ? fmt::format("{:.2f}", without_sign(result.test.perplexity()))
                      : fmt::format("{:.2f} %", 100 * result.test.accuracy)};
}

// A folder for each run, as TensorBoard expects: `1-O0-f32`, `2-O2-bf16`, `3-plan-f16`.
std::string log_folder(const std::string& parent, std::size_t number,
                       const train::RunOptions& run) {
  if (parent.empty()) return {};
  return fmt::format("{}/{}-{}-{}", parent, number, level_of(run),
                     name_of(run.policy.named_dtype()));
}

std::vector<train::RunOptions> parsed_runs(const CompareOptions& options) {
  std::vector<train::RunOptions> runs;
  for (const std::string& level : options.levels) {
    const SharedOptions& shared = options;
    SharedOptions run = shared;
    run.plan.clear();
    run.level = level;
    if (level.find('/') != std::string::npos) run.dtype.reset();  // --dtype is for the other levels
    // These options are for levels that lower something; O0 is the reference.
    const amp::Policy policy = parse_policy(level, run.dtype, "--levels");
    if (policy.level == amp::Level::kO0) {
      run.run.precision.lower.clear();
      run.keep_batchnorm.clear();
    }
    if (policy.eight_bits == nullptr) run.recipe.clear();
    runs.push_back(run.parsed());
  }
  if (!options.plan.empty()) {
    SharedOptions run = static_cast<const SharedOptions&>(options);
    run.run.precision = {};  // for the levels, as the plan says it all
    run.keep_batchnorm.clear();
    run.recipe.clear();
    runs.push_back(run.parsed());
  }
  for (train::RunOptions& run : runs) {
    run.should_stop = [] { return StopOnSignal::was_asked(); };
  }
  return runs;
}

std::string label_of(const train::RunOptions& run) {
  return fmt::format("{} {}", run.model, run.plan != nullptr ? "plan" : text_of(run.policy));
}

// The logs of a comparison's runs.
struct Logs {
  JsonLines json;
  RunReport report;
  std::string folder;  // of event files
  bool quiet;
};

train::RunResult train_one(const train::RunOptions& run, const train::DataPair& data,
                           std::size_t number, Logs& logs) {
  logs.json.begin(start_event("compare", run, training_fields(run)));
  begin_left_out(logs.json, data);
  Progress progress(logs.json, label_of(run), logs.quiet);
  logs.report.begin(label_of(run), run, data);
  EventLog log(log_folder(logs.folder, number, run), progress);
  ReportObserver observer(logs.report, log);
  const train::RunResult result = progress.run(run, data, observer);
  logs.json.write(result.stopped ? stopped_event(result) : result_event(run, result, true));
  return result;
}

// Checked now, since the last run needs its folder only after hours.
void check_log_folders(const std::string& parent, const std::vector<train::RunOptions>& runs) {
  if (parent.empty()) return;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    io::check_folder_writable(log_folder(parent, i + 1, runs[i]), "--logdir");
  }
}

// An error at one level is reported before the levels that come first are trained.
void check_precision(const std::vector<train::RunOptions>& runs, const train::DataPair& data) {
  train::RunOptions options = runs.front();
  options.fine_tuning.weights.clear();
  const train::ExampleKind example = train::example_of(options, data);
  const auto net = train::make_model(options, example.shape, example.classes);
  for (const train::RunOptions& run : runs) {
    train::apply_precision(*net, run, example.shape);
  }
}

void run_compare(CompareOptions options) {
  const NamedFile json{"--json", options.json};
  const NamedFile page{"--report", options.report};
  check_distinct({{"--weights", options.run.fine_tuning.weights},
                  {"--class-weights", options.class_weights},
                  {"--plan", options.plan},
                  json,
                  page});
  check_outputs({json, page},
                {.folders = {{"--logdir", options.logdir}}, .data = options.run.data});
  std::vector<train::RunOptions> runs = parsed_runs(options);
  const auto processes = share_work(options, runs);
  apply_machine_options(options);
  RunReport report(report_title(runs.front().model, runs.front().data), options.report,
                   runs.size());
  const train::DataPair data = train::open_data(runs.front());
  for (train::RunOptions& run : runs) {
    fit_epochs(options, train::examples_per_epoch(run, data), run);
    train::fit_to_data(run, data);
    train::set_class_weights(run.loss, data);
  }
  check_precision(runs, data);
  check_log_folders(options.logdir, runs);
  Logs logs{JsonLines(options.json), std::move(report), options.logdir, options.quiet};
  std::vector<std::vector<std::string>> rows{table_header(data.has_tokens())};
  const StopOnSignal stop;
  train::RunResult result;
  const auto print_rows = [&] {
    if (rows.size() > 1) write_out("{}", format_table(rows));
    print_left_out(data);
  };
  try {
    for (std::size_t i = 0; i < runs.size() && !result.stopped; ++i) {
      result = train_one(runs[i], data, rows.size(), logs);
      if (!result.stopped) rows.push_back(table_row(runs[i], result));
    }
  } catch (...) {
    // The results of finished runs are kept.
    const bool is_first = rows.size() == 1;
    print_rows();
    if (is_first) {
      logs.report.end_in_spite();
    } else {
      write_in_spite([&] { logs.report.write(); });
    }
    distributed::meet_in_failure(*processes);
    if (is_first) throw;
    on_the_way([] { throw; });
  }
  print_rows();
  on_the_way([&] { logs.report.write(); });
  if (result.stopped) {
    // The launcher ends all processes when the first one fails, and one may still be writing.
    distributed::meet(*processes);
    leave_the_word_to_the_first(*processes);
    fail<Error>("compare", "stopped by a signal after step ", result.steps, " of ",
                label_of(runs[rows.size() - 1]), ": ", rows.size() - 1, " of ", runs.size(),
                " runs are done. A comparison cannot be resumed. Start it again");
  }
}

}  // namespace

void add_compare(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("compare", "Train a model once per level, from the same weights");
  auto options = std::make_shared<CompareOptions>();
  add_precision_options_but_level(*command, *options, OfferedModels::kWithData);
  offer(command->add_option("--levels", options->levels,
                            "Levels to compare, with a dtype if not --dtype: O0,O2,O2/f16"),
        level_words())
      ->delimiter(',')
      ->capture_default_str()
      ->group(heading::kPrecision);
  add_plan_option(*command, *options)->description("Also by a plan, of mezzo tune");
  add_loss_scale_option(*command, *options);
  add_beginning_options(*command, *options);
  add_training_data_options(*command, *options);
  add_class_weights_option(*command, *options);
  add_optimizer_options(*command, *options);
  add_schedule_options(*command, *options);
  add_watch_options(*command, *options);
  add_execution_options(*command, *options);
  add_output_options(*command, *options);
  add_report_options(*command, *options);
  command->callback([options] { run_compare(*options); });
}

}  // namespace mezzo::cli
