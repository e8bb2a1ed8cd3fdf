#include "mezzo/cli/run_report.h"

#include <algorithm>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "mezzo/amp/plan.h"
#include "mezzo/cli/failures.h"
#include "mezzo/cli/first_pictures.h"
#include "mezzo/cli/plan_table.h"
#include "mezzo/cli/progress.h"
#include "mezzo/cli/table.h"
#include "mezzo/core/cpu.h"
#include "mezzo/core/device_backend.h"
#include "mezzo/core/log.h"
#include "mezzo/core/parallel.h"
#include "mezzo/io/png.h"
#include "mezzo/nn/freeze.h"
#include "mezzo/report/text.h"
#include "mezzo/train/optimizer_of.h"

namespace mezzo::cli {
namespace {

std::string describe_scaling(const train::RunOptions& options) {
  const amp::GradScaler scaler = train::make_scaler(options.loss_scale, options.policy);
  if (!scaler.is_enabled()) return "none";
  const bool is_fixed = options.loss_scale.kind == train::LossScaling::Kind::kStatic;
  return fmt::format("{}, from {}", is_fixed ? "fixed" : "dynamic", scaler.get_scale());
}

// Only at level auto does graph mode choose by itself what is computed in 16 bits.
std::string describe_plan(const train::RunOptions& options) {
  const bool may_differ =
      options.graph && options.plan == nullptr && options.policy.level == amp::Level::kAuto;
  return may_differ ? "as in eager mode; graph mode may lower more operations: mezzo plan --graph"
                    : "as it runs";
}

// Whose weights are validated, and how the run reacts.
std::string describe_watch(const train::RunOptions& options) {
  const train::WatchOptions& watch = options.watch;
  std::string text = "of the weights";
  if (watch.ema.has_value()) text = fmt::format("of averaged weights, decay {}", *watch.ema);
  if (watch.ema_warmup) text += " with warm-up";
  if (options.schedule.kind == train::ScheduleKind::kPlateau) {
    text += fmt::format("; rate times {} after more than {} epochs without better {}",
                        options.schedule.lr_factor, options.schedule.lr_patience, watch.monitor);
  }
  if (watch.early_stop.has_value()) {
    text +=
        fmt::format("; stop after {} epochs without better {}", *watch.early_stop, watch.monitor);
  }
  return text;
}

using ConfigurationRows = std::vector<std::pair<std::string, std::string>>;

// Adds a row for each requested setting of the initial weights and of the data.
void add_rows_if_asked(const train::RunOptions& options, ConfigurationRows& rows) {
  const train::FineTuning& tuning = options.fine_tuning;
  if (!tuning.weights.empty()) {
    rows.emplace_back("weights", tuning.weights + (tuning.new_head ? ", with a new head" : ""));
  }
  if (options.tokens > 0) rows.emplace_back("tokens", std::to_string(options.tokens));
  if (options.mix.mixup > 0) rows.emplace_back("mixup", fmt::format("{}", options.mix.mixup));
  if (options.mix.cutmix > 0) rows.emplace_back("cutmix", fmt::format("{}", options.mix.cutmix));
  if (!options.loss.class_weights.empty()) {
    rows.emplace_back("class weights",
                      fmt::format("{:.4g}", fmt::join(options.loss.class_weights, ", ")));
  }
  if (options.loss.label_smoothing > 0) {
    rows.emplace_back("label smoothing", fmt::format("{}", options.loss.label_smoothing));
  }
}

void add_left_out(const data::Dataset* set, const char* split, ConfigurationRows& rows) {
  const auto left_out = set != nullptr ? std::ssize(set->left_out()) : 0;
  if (left_out == 0) return;
  rows.emplace_back(
      fmt::format("left out ({})", split),
      fmt::format("{} of {} images, which cannot be read", left_out, set->size() + left_out));
}

ConfigurationRows configuration_rows(const train::RunOptions& options) {
  return {{"model", options.model},
          {"data", options.data},
          {"level", options.plan != nullptr ? precision_of(options)
                                            : std::string(amp::name_of(options.policy.level))},
          {"dtype", name_of(options.policy.named_dtype())},
          {"loss scaling", describe_scaling(options)},
          {"batch size", std::to_string(options.batch_size)},
          {"optimizer", train::describe(options.optimizer)},
          {"learning rate",
           fmt::format("{}, {}", options.optimizer.lr, train::name_of(options.schedule.kind))},
          {"validation", describe_watch(options)},
          {"seed", std::to_string(options.seed)},
          {"mode", options.graph ? "graph" : "eager"},
          {"plan", describe_plan(options)},
          {"device", concat(options.device)},
          {"machine", fmt::format("{}, {} thread{}", cpu_name(), num_threads(),
                                  num_threads() == 1 ? "" : "s")},
          {"fast bf16", has_fast_bf16() ? "yes" : "no"}};
}

std::unique_ptr<nn::Module> initial_network(train::RunOptions options,
                                            const train::DataPair& data) {
  options.fine_tuning.weights.clear();
  const train::ExampleKind example = train::example_of(options, data);
  return train::make_model(options, example.shape, example.classes);
}

// The plan does not depend on the weights, and a resumed run has no file of them.
NumberedPlan plan_of(const train::RunOptions& options, const train::DataPair& data,
                     nn::Module& net) {
  const Shape shape = train::example_of(options, data).shape;
  const amp::Policy policy = train::apply_precision(net, options, shape);
  const Tensor example = train::zero_examples(shape, 1, net.device());
  amp::Plan plan = amp::make_plan(net, example, policy);
  explain_by(options.plan.get(), plan.ops);
  return number_reasons(rows_of(plan));
}

std::string name_of_class(const std::vector<std::string>& names, std::size_t number) {
  return names.empty() ? std::to_string(number) : names[number];
}

// For probabilities [classes], which mixed images have: each class with a share, largest first.
std::string parts_text(const std::vector<std::string>& names, std::span<const float> parts) {
  std::vector<std::size_t> classes;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i] > 0) classes.push_back(i);
  }
  std::ranges::stable_sort(classes,
                           [&](std::size_t a, std::size_t b) { return parts[a] > parts[b]; });
  if (classes.size() == 1) return name_of_class(names, classes[0]);
  std::string text;
  for (const std::size_t i : classes) {
    text += fmt::format("{}{} {:.0f} %", text.empty() ? "" : ", ", name_of_class(names, i),
                        100 * parts[i]);
  }
  return text;
}

// The classes that the images of a batch show, from labels [n] or probabilities [n, classes].
std::vector<std::string> labels_of(const data::Batch& batch, const data::Dataset& dataset) {
  const std::vector<std::string> names = dataset.class_names();
  std::vector<std::string> texts;
  if (batch.labels.shape().rank() == 1) {
    for (const std::int64_t label : batch.labels.to_vector<std::int64_t>()) {
      texts.push_back(name_of_class(names, static_cast<std::size_t>(label)));
    }
    return texts;
  }
  const std::vector<float> parts = batch.labels.to_vector<float>();
  const auto classes = static_cast<std::size_t>(batch.labels.size(1));
  for (std::size_t first = 0; first < parts.size(); first += classes) {
    texts.push_back(parts_text(names, std::span(parts).subspan(first, classes)));
  }
  return texts;
}

void take_counts(const amp::GradientStatistics& statistics, report::RunData& run) {
  run.gradients = statistics.total();
  run.activation_gradients = statistics.total_activations();
  run.counted_steps = statistics.counted_steps();
}

void take_counts(const numbers::ActivationStatistics& statistics, report::RunData& run) {
  run.activations = statistics.total();
  run.weights = statistics.total_weights();
  run.counted_forward_passes = statistics.counted_steps();
}

report::Table table_of(const PlanCells& cells) {
  return {.header = cells.front(), .rows = {cells.begin() + 1, cells.end()}};
}

}  // namespace

std::string report_title(const std::string& name, const std::string& data) {
  constexpr std::size_t kLongest = 24;  // fits a line of the title beside a model's name
  if (data.size() <= kLongest) return fmt::format("{} on {}", name, data);
  const std::size_t colon = data.find(':');
  const std::string kind = colon == std::string::npos ? "" : data.substr(0, colon + 1);
  std::string path = data.substr(kind.size());
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  // Starts at a folder's name, if that makes the text short enough.
  const std::size_t slash = path.find('/', path.size() > kLongest ? path.size() - kLongest : 0);
  const std::string end =
      slash == std::string::npos ? report::shortened(path, kLongest) : "…" + path.substr(slash);
  return fmt::format("{} on {}{}", name, kind, end);
}

RunReport::RunReport(std::string title, const std::string& path, std::size_t total_runs)
    : path_(path) {
  report_.title = std::move(title);
  report_.total_runs = total_runs;
  if (is_wanted()) report::check_writable(path_);
}

void RunReport::begin(const std::string& name, const train::RunOptions& options,
                      const train::DataPair& data) {
  if (!is_wanted()) return;
  const auto net = initial_network(options, data);
  const NumberedPlan plan = plan_of(options, data, *net);
  report::RunData run{
      .name = name,
      .configuration = configuration_rows(options),
      .dtype = options.policy.dtype(),
      .is_scaled = train::make_scaler(options.loss_scale, options.policy).is_enabled(),
      .has_accuracy = !data.has_tokens(),
      .plan = table_of(plan.calls),
      .reasons = table_of(plan.reasons)};
  add_rows_if_asked(options, run.configuration);
  add_left_out(data.train.get(), "train", run.configuration);
  add_left_out(data.test.get(), "test", run.configuration);
  const std::string frozen = nn::describe_frozen(*net);
  if (!frozen.empty()) run.configuration.emplace_back("frozen", frozen);
  device_ = options.device;
  report_.runs.push_back(std::move(run));
}

void RunReport::write() {
  if (!is_wanted()) return;
  for (report::RunData& run : report_.runs) run.is_running = false;
  report::write_page(path_, report_);
}

void RunReport::refresh_now(const std::function<void()>& complete) {
  const auto begin = report::RefreshPace::Clock::now();
  complete();
  run().is_running = true;
  try {
    report::write_page(path_, report_);
    has_page_ = true;
  } catch (const Error& error) {
    if (!std::exchange(has_warned_, true)) {
      logging::write(logging::Topic::kWarning, error.what(),
                     ". The run goes on; its page is tried again, and at its end");
    }
  }
  run().is_running = false;
  pace_.wrote(begin, report::RefreshPace::Clock::now());
}

void RunReport::end_in_spite() {
  if (has_page_) write_in_spite([&] { write(); });
}

void ReportObserver::on_start(std::int64_t total_steps) {
  if (report_.is_wanted()) report_.run().total_steps = total_steps;
  next_.on_start(total_steps);
}

void ReportObserver::on_resume(const std::string& path, std::int64_t step) {
  if (report_.is_wanted()) report_.run().resumed_after = step;
  step_ = step;
  next_.on_resume(path, step);
}

void ReportObserver::on_first_batch(const data::Batch& batch, const data::Dataset& dataset) {
  if (report_.is_wanted()) {
    const std::vector<std::string> labels = labels_of(batch, dataset);
    report::RunData& run = report_.run();
    run.batch_size = batch.labels.size(0);
    for (const data::Image& image : first_pictures(batch, dataset)) {
      run.first_batch.push_back({.png = io::encode_png(image.pixels, image.shape),
                                 .width = image.shape[2],
                                 .height = image.shape[1],
                                 .label = labels[run.first_batch.size()]});
    }
  }
  next_.on_first_batch(batch, dataset);
}

void ReportObserver::on_step(const train::StepEvent& event) {
  step_ = event.step;
  if (report_.is_wanted()) {
    report_.run().steps.push_back({.step = event.step,
                                   .loss = event.report.loss,
                                   .lr = event.lr,
                                   .scale = event.report.scale,
                                   .skipped = event.report.skipped,
                                   .grad_norm = event.report.grad_norm,
                                   .nonfinite_loss = event.report.nonfinite_loss,
                                   .culprit = event.report.first_bad,
                                   .ms = event.report.total_ms()});
    note_memory();
  }
  next_.on_step(event);
  refresh();
}

void ReportObserver::note_memory() {
  const std::int64_t peak = memory_stats(report_.device()).peak_bytes;
  if (peak <= peak_bytes_) return;
  peak_bytes_ = peak;
  report_.run().peak_memory = format_bytes(peak);
}

// Of the counts, only a page needs a copy.
void ReportObserver::refresh() {
  report_.refresh([&](report::RunData& run) {
    if (statistics_ != nullptr) take_counts(*statistics_, run);
  });
}

void ReportObserver::on_epoch(const train::EpochEvent& event) {
  if (report_.is_wanted()) {
    report_.run().epochs.push_back({.epoch = event.epoch,
                                    .train_loss = event.train_loss,
                                    .test_loss = event.test.loss,
                                    .accuracy = event.test.accuracy,
                                    .seconds = event.seconds});
  }
  add(step_, event.test);
  next_.on_epoch(event);
  refresh();
}

void ReportObserver::on_evaluation(const train::EvaluationEvent& event) {
  add(event.step, event.test);
  next_.on_evaluation(event);
  refresh();
}

void ReportObserver::add(std::int64_t step, const train::Evaluation& test) {
  if (!report_.is_wanted()) return;
  report_.run().evaluations.push_back({.step = step, .loss = test.loss});
}

void ReportObserver::on_rate(const train::RateEvent& event) {
  if (report_.is_wanted()) {
    report_.run().notes.push_back(
        fmt::format("After epoch {} the learning rate was reduced from {} to {}", event.epoch,
                    event.from, event.to));
  }
  next_.on_rate(event);
}

void ReportObserver::on_early_stop(const train::EarlyStop& event) {
  if (report_.is_wanted()) {
    std::string text = early_stop_text(event);
    text.front() = 'S';
    report_.run().notes.push_back(std::move(text));
  }
  next_.on_early_stop(event);
}

void ReportObserver::on_widened(const train::WidenEvent& event) {
  if (report_.is_wanted()) {
    report_.run().notes.push_back(fmt::format("After step {} {}", event.step, event.text()));
  }
  next_.on_widened(event);
}

void ReportObserver::on_first_overflow(const numbers::OverflowFinding& finding) {
  if (report_.is_wanted()) report_.run().first_overflows.push_back(finding);
  next_.on_first_overflow(finding);
}

void ReportObserver::on_counting(const amp::GradientStatistics& statistics) {
  statistics_ = &statistics;
  next_.on_counting(statistics);
}

// The page of a running run shows what was counted so far.
void ReportObserver::on_counted(const numbers::ActivationStatistics& statistics) {
  if (report_.is_wanted()) take_counts(statistics, report_.run());
  next_.on_counted(statistics);
}

void ReportObserver::on_activations(const numbers::ActivationStatistics& statistics) {
  if (report_.is_wanted()) take_counts(statistics, report_.run());
  next_.on_activations(statistics);
}

void ReportObserver::on_gradients(const amp::GradientStatistics& statistics) {
  statistics_ = nullptr;
  if (report_.is_wanted()) take_counts(statistics, report_.run());
  next_.on_gradients(statistics);
}

}  // namespace mezzo::cli
