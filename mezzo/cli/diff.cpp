// mezzo diff: compares two runs of a training step, call by call.
#include <memory>

#include <fmt/format.h>

#include "mezzo/cli/command.h"
#include "mezzo/cli/diff_sides.h"
#include "mezzo/cli/diff_table.h"
#include "mezzo/cli/distinct_files.h"
#include "mezzo/cli/json_lines.h"
#include "mezzo/cli/left_out.h"
#include "mezzo/cli/offered_values.h"
#include "mezzo/cli/print.h"
#include "mezzo/cli/table.h"
#include "mezzo/core/parallel.h"
#include "mezzo/numbers/dump.h"
#include "mezzo/report/diff_page.h"
#include "mezzo/report/page.h"

namespace mezzo::cli {
namespace {

constexpr std::size_t kTextWidth = 100;

struct DiffOptions : SharedOptions {
  std::string a{};
  std::string b{};
  std::int64_t top = 12;
};

// What both sides read.
struct Input {
  train::DataPair data{};
  train::ExampleKind example{};
  Batch batch{};
};

Input input_of(const DiffSide& a, const DiffSide& b) {
  Input input;
  if (!a.dump.empty() && !b.dump.empty()) return input;
  const DiffSide& side = a.dump.empty() ? a : b;
  train::RunOptions run = side.step.run;
  input.data = train::open_data(run);
  train::fit_to_data(run, input.data);
  input.example = train::example_of(run, input.data);
  input.batch = train::first_batch(run, input.data);
  return input;
}

// A step of that side, once the options that the data decide are filled in.
std::unique_ptr<train::OneStep> step_of(const DiffSide& side, const Input& input) {
  train::OneStep::Options options = side.step;
  train::fit_to_data(options.run, input.data);
  train::set_class_weights(options.run.loss, input.data);
  return std::make_unique<train::OneStep>(options, input.example, input.batch);
}

void warn_of_f64(const DiffSide& side, const Input& input) {
  constexpr double kLong = 5;
  if (!side.step.is_f64) return;
  train::RunOptions run = side.step.run;
  train::fit_to_data(run, input.data);
  const double seconds = train::seconds_in_f64(run, input.example, input.batch.size());
  if (seconds < kLong) return;
  write_error(
      "f64 is computed by plain loops: about {:.0f} s for {} examples, and twice as long to "
      "look at f32. A smaller --batch-size or --image-size takes less\n",
      seconds, input.batch.size());
}

numbers::StepRecord record_of(const DiffSide& side, const Input& input,
                              numbers::Measured measured) {
  if (!side.dump.empty()) return numbers::read_dump(side.dump);
  const auto step = step_of(side, input);
  const numbers::StepRun run = step->run();
  numbers::StepRecorder recorder(run.net, {.title = run.title, .measured = measured});
  run.make(recorder);
  return recorder.take();
}

numbers::Comparison compare_sides(const DiffSide& a, const DiffSide& b, const Input& input) {
  // What f64 is there to show is the own error of f32.
  const numbers::StepRecord record =
      record_of(a, input, b.step.is_f64 ? numbers::Measured::kAll : numbers::Measured::k16Bits);
  if (!b.dump.empty()) return numbers::compare_records(record, numbers::read_dump(b.dump));
  const auto step = step_of(b, input);
  return numbers::compare_run(record, step->run());
}

std::string loss_text(const numbers::RecordedStep& step) {
  std::string text = fmt::format("loss {:.6g}", without_sign(step.loss));
  if (step.scale != 1) text += fmt::format(", scale {}", step.scale);
  if (step.is_skipped) text += ", the step was skipped";
  return text;
}

void print_comparison(const numbers::Comparison& found, const DiffOptions& options) {
  write_out("A: {}, step {}: {}\n", on_one_line(found.a.title), found.a.step, loss_text(found.a));
  write_out("B: {}, step {}: {}\n", on_one_line(found.b.title), found.b.step, loss_text(found.b));
  for (const std::string& line : found.lines()) {
    write_out("{}\n", wrap(on_one_line(line), kTextWidth));
  }
  const std::string table = diff_table(found, static_cast<std::size_t>(options.top));
  if (!table.empty()) write_out("\n{}", table);
}

void run_diff(const DiffOptions& options) {
  const NamedFile json{"--json", options.json};
  const NamedFile page{"--report", options.report};
  check_distinct({{"--weights", options.run.fine_tuning.weights}, json, page});
  check_outputs({json, page}, {.data = options.run.data});
  check_arg(options.top >= 0, "--top", "must not be negative: ", options.top);
  const SharedOptions& given = options;
  SharedOptions shared = given;
  shared.report.clear();  // that of a run has histograms
  const DiffSide a = parse_side(options.a, "A", shared);
  const DiffSide b = parse_side(options.b, "B", shared);
  apply_machine_options(options);
  JsonLines log(options.json);
  if (!options.report.empty()) report::check_writable(options.report);
  log.begin({{"event", "start"}, {"command", "diff"}, {"a", options.a}, {"b", options.b}});
  const Input input = input_of(a, b);
  warn_of_f64(a, input);
  warn_of_f64(b, input);
  const numbers::Comparison found = compare_sides(a, b, input);
  check_arg(!found.results.empty(), "diff",
            "the steps of A and B have no call in common. Compare "
            "runs of one model");
  log_comparison(found, log);
  print_comparison(found, options);
  if (!options.report.empty()) report::write_diff_page(options.report, found);
}

}  // namespace

void add_diff(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("diff", "Compare two runs of a training step, call by call");
  auto options = std::make_shared<DiffOptions>();
  std::vector<std::string> words = level_words();
  words.emplace_back("f64");
  const auto add_side = [&](const char* name, std::string& side, const char* help) {
    offer_with_folders(command->add_option(name, side, help), words)->required();
  };
  add_side("A", options->a,
           "A level, f64, plan:FILE or a dump's folder; O2+graph, O0@FILE (weights)");
  add_side("B", options->b, "Likewise: what is compared with A");
  add_precision_options_but_level(*command, *options, OfferedModels::kWithData);
  add_loss_scale_option(*command, *options);
  add_beginning_options(*command, *options);
  add_data_options(*command, *options);
  add_batch_size_option(*command, *options);
  add_class_weights_option(*command, *options);
  command->add_option("--seed", options->run.seed, "Seed of weights, batch and random numbers")
      ->capture_default_str()
      ->group(heading::kExecution);
  add_device_options(*command, *options);
  offer_files(command->add_option("--json", options->json, "Log of JSON objects, one per result"))
      ->group(heading::kOutput);
  offer_files(
      command->add_option("--report", options->report, "HTML page: the network, call by call"))
      ->group(heading::kOutput);
  command->add_option("--top", options->top, "Rows of the table")
      ->capture_default_str()
      ->group(heading::kOutput);
  command->callback([options] { run_diff(*options); });
}

}  // namespace mezzo::cli
