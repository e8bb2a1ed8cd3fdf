// mezzo compare: trains one model from the same weights in several precisions.
#include <fmt/format.h>

#include "mezzo/cli/command.h"
#include "mezzo/cli/event_log.h"
#include "mezzo/cli/options.h"
#include "mezzo/cli/output.h"
#include "mezzo/cli/run_report.h"

namespace mezzo::cli {
namespace {

struct CompareOptions : SharedOptions {
  std::vector<std::string> levels{"O0", "O2"};
};

const std::vector<std::string> kHeader{"network", "level",       "dtype",   "ms/step", "images/s",
                                       "epochs",  "peak memory", "skipped", "loss",    "accuracy"};

std::vector<std::string> table_row(const train::RunOptions& run, const train::RunResult& result) {
  return {run.model,
          amp::name_of(run.policy.level),
          name_of(run.policy.dtype()),
          fmt::format("{:.2f}", result.step_ms_median),
          fmt::format("{:.0f}", result.images_per_s),
          fmt::format("{}", result.epochs),
          format_bytes(result.peak_bytes),
          fmt::format("{}", result.skipped_steps),
          fmt::format("{:.4f}", without_sign(result.test.loss)),
          fmt::format("{:.2f} %", 100 * result.test.accuracy)};
}

// A folder for each run, as TensorBoard wants it: `1-O0-f32`, `2-O2-bf16`.
std::string log_folder(const std::string& parent, std::size_t number,
                       const train::RunOptions& run) {
  if (parent.empty()) return {};
  return fmt::format("{}/{}-{}-{}", parent, number, amp::name_of(run.policy.level),
                     name_of(run.policy.dtype()));
}

void run_compare(const CompareOptions& options) {
  std::vector<train::RunOptions> runs;
  for (const std::string& level : options.levels) {
    const SharedOptions& shared = options;
    SharedOptions run = shared;
    run.level = level;
    runs.push_back(run.parsed());
  }
  apply_machine_options(options);
  RunReport report(fmt::format("{} on {}", runs.front().model, runs.front().data), options.report);
  const train::DataPair data = train::open_data(runs.front());
  for (train::RunOptions& run : runs) fit_epochs(options, *data.train, run);
  JsonLines json(options.json);
  std::vector<std::vector<std::string>> rows{kHeader};
  for (const train::RunOptions& run : runs) {
    json.begin(start_event("compare", run));
    const std::string label = fmt::format("{} {}/{}", run.model, amp::name_of(run.policy.level),
                                          name_of(run.policy.dtype()));
    Progress progress(json, label, options.quiet);
    report.begin(label, run, data);
    EventLog log(log_folder(options.logdir, rows.size(), run), progress);
    ReportObserver observer(report, log);
    const train::RunResult result = train::run(run, data, observer);
    json.write(result_event(run, result, true));
    rows.push_back(table_row(run, result));
  }
  fmt::print("{}", format_table(rows));
  report.write();
}

}  // namespace

void add_compare(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("compare", "Train a model once per level, from the same weights");
  auto options = std::make_shared<CompareOptions>();
  add_model_options(*command, *options);
  add_training_options(*command, *options);
  add_report_options(*command, *options);
  command
      ->add_option("--levels", options->levels,
                   "Levels to compare, each with a dtype if it is not --dtype: O0,O2,O2/f16")
      ->delimiter(',')
      ->capture_default_str();
  command->callback([options] { run_compare(*options); });
}

}  // namespace mezzo::cli
