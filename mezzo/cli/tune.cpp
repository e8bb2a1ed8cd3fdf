// mezzo tune: finds the precision of every operation by measurement.
#include <memory>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "mezzo/cli/command.h"
#include "mezzo/cli/distinct_files.h"
#include "mezzo/cli/events.h"
#include "mezzo/cli/json_lines.h"
#include "mezzo/cli/left_out.h"
#include "mezzo/cli/offered_values.h"
#include "mezzo/cli/options.h"
#include "mezzo/cli/print.h"
#include "mezzo/cli/progress.h"
#include "mezzo/cli/table.h"
#include "mezzo/cli/tune_table.h"
#include "mezzo/report/page.h"
#include "mezzo/report/tune_page.h"
#include "mezzo/train/tuning.h"
#include "mezzo/tune/plan_file.h"

namespace mezzo::cli {
namespace {

constexpr std::size_t kTuneTextWidth = 100;

struct TuneCommand : SharedOptions {
  std::string out{};
  std::string candidates = "f32,bf16,f16";
  std::string objective = "time";
  std::optional<double> error_budget{};   // in percent
  std::optional<double> memory_budget{};  // in MB
  std::int64_t batches = 2;
  std::int64_t examples = 0;
  std::int64_t proof_steps = 6;
  std::int64_t top = 12;
};

struct Candidates {
  std::vector<DType> dtypes{};
  Scaling scaling = Scaling::kCurrent;
};

// `f32,bf16,e4m3/mxfp8`.
Candidates parse_candidates(const std::string& text) {
  Candidates candidates;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    std::string name = text.substr(begin, end - begin);
    const std::size_t slash = name.find('/');
    const bool says_scaling = slash != std::string::npos;
    if (says_scaling) candidates.scaling = scaling_named(name.substr(slash + 1), "--candidates");
    name.resize(std::min(slash, name.size()));
    const std::optional<DType> dtype = parse_dtype(name);
    const bool can_be = dtype.has_value() && (is_trainable(*dtype) || dtype == DType::kE4m3);
    check_arg(can_be && (!says_scaling || is_eight_bit(*dtype)), "--candidates", "`",
              text.substr(begin, end - begin), "` is not a dtype to choose. Use some of ",
              trainable_dtypes(), "; e4m3 or e4m3/mxfp8 for products");
    check_arg(!is_eight_bit(*dtype) ||
                  std::ranges::find(candidates.dtypes, *dtype) == candidates.dtypes.end(),
              "--candidates", "e4m3 stands there twice. Name it once, with one recipe");
    candidates.dtypes.push_back(*dtype);
    begin = end + 1;
  }
  return candidates;
}

tune::Objective parse_objective(const std::string& text) {
  check_arg(text == "time" || text == "memory", "--objective", "`", text,
            "` is neither time nor memory. Use one of them");
  return text == "time" ? tune::Objective::kTime : tune::Objective::kMemory;
}

tune::TuneOptions tune_options(const TuneCommand& options) {
  constexpr double kPercent = 0.01;
  constexpr double kMegabyte = 1e6;
  check_arg(options.batches >= 1, "--error-batches", "must be at least 1: ", options.batches);
  check_arg(options.examples >= 0, "--error-examples", "must not be negative: ", options.examples);
  check_arg(options.proof_steps >= 1, "--proof-steps", "must be at least 1: ", options.proof_steps);
  const Candidates candidates = parse_candidates(options.candidates);
  tune::TuneOptions result{.candidates = candidates.dtypes,
                           .scaling = candidates.scaling,
                           .objective = parse_objective(options.objective),
                           .error_examples = options.examples,
                           .error_batches = options.batches,
                           .proof_steps = options.proof_steps};
  if (options.error_budget.has_value()) result.error_budget = *options.error_budget * kPercent;
  if (options.memory_budget.has_value()) {
    result.memory_budget = static_cast<std::int64_t>(*options.memory_budget * kMegabyte);
  }
  return result;
}

void check_files(const TuneCommand& options) {
  const NamedFile plan{"--out", options.out};
  const NamedFile json{"--json", options.json};
  const NamedFile page{"--report", options.report};
  check_distinct({{"--weights", options.run.fine_tuning.weights}, plan, json, page});
  check_outputs({plan, json, page}, {.data = options.run.data});
  if (!options.report.empty()) report::check_writable(options.report);
}

// A line on a terminal that changes, and elsewhere a line for each phase.
class ShowProgress {
 public:
  void operator()(const std::string& what) {
    if (isatty(STDERR_FILENO) != 0) {
      draw_line("tune: " + what);
      return;
    }
    const std::string phase = what.substr(0, what.find(','));
    if (std::exchange(phase_, phase) != phase) write_error("tune: {}\n", phase);
  }

 private:
  std::string phase_;
};

void run_tune(const TuneCommand& options) {
  check_files(options);
  const SharedOptions& given = options;
  SharedOptions shared = given;
  shared.report.clear();  // that of a run has histograms
  train::RunOptions run = shared.parsed();
  tune::TuneOptions tuning = tune_options(options);
  apply_machine_options(options);
  const train::DataPair data = train::open_data(run);
  train::fit_to_data(run, data);
  JsonLines log(options.json);
  log.begin(start_event("tune", run, step_fields(run)));
  if (!options.quiet) tuning.on_progress = ShowProgress();
  const tune::TuneResult result = train::tune_run(run, data, tuning);
  amp::write_plan(options.out, result.plan);
  log_tune(result, log);
  write_out("{}\n{}\n{}\n", settings_table(result),
            operations_table(result, static_cast<std::size_t>(options.top)),
            wrap(tune_summary(result), kTuneTextWidth));
  write_out("Wrote {}. Use it: --plan {}\n", options.out, options.out);
  if (!options.report.empty()) report::write_tune_page(options.report, result);
}

void add_tune_options(CLI::App& command, TuneCommand& options) {
  const auto add = [&](const char* name, auto& value, const char* help) {
    return command.add_option(name, value, help)->group(heading::kPrecision);
  };
  offer(add("--candidates", options.candidates, "Dtypes to choose among"),
        {"f32,bf16", "f32,f16", "f32,bf16,e4m3"})
      ->capture_default_str();
  add("--error-budget", options.error_budget,
      "How large the gradients' error may be, in % (that of level auto)");
  add("--memory-budget", options.memory_budget, "How much memory a step may take, in MB (any)");
  offer(add("--objective", options.objective, "What is to be least: time or memory"),
        {"time", "memory"})
      ->capture_default_str();
  add("--error-batches", options.batches, "Batches to measure errors with")->capture_default_str();
  add("--error-examples", options.examples,
      "Examples of each of them (as fits some tens of seconds)");
  add("--proof-steps", options.proof_steps, "Timed steps of each setting, twice")
      ->capture_default_str();
}

}  // namespace

void add_tune(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "tune", "Find the precision of every operation by measuring errors and times");
  auto options = std::make_shared<TuneCommand>();
  add_model_option(*command, options->run, OfferedModels::kWithData);
  add_tune_options(*command, *options);
  add_beginning_options(*command, *options);
  add_data_options(*command, *options);
  add_batch_size_option(*command, *options);
  add_class_weights_option(*command, *options);
  add_optimizer_options(*command, *options);
  add_execution_options(*command, *options);
  offer_files(command->add_option("--out", options->out, "Write the plan to this file"))
      ->required()
      ->group(heading::kOutput);
  offer_files(
      command->add_option("--report", options->report, "HTML page: the plan and its proofs"))
      ->group(heading::kOutput);
  command->add_option("--top", options->top, "Rows of the table of operations")
      ->capture_default_str()
      ->group(heading::kOutput);
  add_output_options(*command, *options);
  command->callback([options] { run_tune(*options); });
}

}  // namespace mezzo::cli
