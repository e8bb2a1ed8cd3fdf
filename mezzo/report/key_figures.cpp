#include "mezzo/report/key_figures.h"

#include <algorithm>
#include <cmath>

#include "mezzo/core/error.h"
#include "mezzo/report/text.h"

namespace mezzo::report {
namespace {

std::string precision_text(const RunData& run) {
  const std::string level = fact_of(run, "level");
  return level.empty() ? "" : concat(level, "/", name_of(run.dtype));
}

KeyFigure loss_figure(const RunData& run) {
  if (!run.epochs.empty()) {
    return {.name = "Test loss",
            .value = format_number(run.epochs.back().test_loss),
            .remark = concat("training: ", format_number(run.steps.back().loss))};
  }
  return {.name = "Training loss",
          .value = format_number(run.steps.back().loss),
          .remark = concat("in step ", run.steps.back().step)};
}

KeyFigure skipped_figure(const RunData& run) {
  const auto skipped = std::ranges::count_if(run.steps, &StepRecord::skipped);
  return {.name = "Skipped steps",
          .value = std::to_string(skipped),
          .remark = concat("of ", run.steps.size())};
}

// What f16 would do to the gradients, if they were counted.
void add_lost(const RunData& run, std::vector<KeyFigure>& figures) {
  const amp::GradientHistogram sum = amp::sum_of(run.gradients, "");
  if (sum.counts.finite_nonzero() == 0) return;
  figures.push_back({.name = "Gradients that f16 loses",
                     .value = format_part(sum.lost_in(DType::kF16)),
                     .remark = "without loss scaling"});
}

void add_results(const RunData& run, std::vector<KeyFigure>& figures) {
  if (run.steps.empty()) return;
  if (!run.epochs.empty()) {
    figures.push_back({.name = run.has_accuracy ? "Test accuracy" : "Test perplexity",
                       .value = quality_text(run),
                       .remark = concat("after epoch ", run.epochs.back().epoch)});
  }
  figures.push_back(loss_figure(run));
  if (const auto ms = step_ms_of(run)) {
    figures.push_back(
        {.name = "Step time", .value = format_number(*ms, 3) + " ms", .remark = "median"});
  }
  figures.push_back(skipped_figure(run));
}

}  // namespace

std::string fact_of(const RunData& run, const std::string& name) {
  const auto row =
      std::ranges::find(run.configuration, name, &std::pair<std::string, std::string>::first);
  return row == run.configuration.end() ? "" : row->second;
}

std::optional<double> step_ms_of(const RunData& run) {
  std::vector<double> times;
  for (const StepRecord& step : run.steps) {
    if (step.ms > 0) times.push_back(step.ms);
  }
  if (times.empty()) return std::nullopt;
  const auto middle = times.begin() + std::ssize(times) / 2;
  std::ranges::nth_element(times, middle);
  return *middle;
}

std::string quality_text(const RunData& run) {
  const EpochRecord& last = run.epochs.back();
  return run.has_accuracy ? format_fixed(100 * last.accuracy, 2) + " %"
                          : format_fixed(std::exp(last.test_loss), 2);
}

std::vector<KeyFigure> key_figures(const RunData& run) {
  std::vector<KeyFigure> figures;
  const std::string model = fact_of(run, "model");
  if (!model.empty()) figures.push_back({.name = "Model", .value = model});
  const std::string precision = precision_text(run);
  if (!precision.empty()) {
    figures.push_back({.name = "Precision",
                       .value = precision,
                       .remark = run.is_scaled ? "with loss scaling" : "no loss scaling"});
  }
  add_results(run, figures);
  if (!run.peak_memory.empty()) {
    figures.push_back(
        {.name = "Peak memory", .value = run.peak_memory, .remark = "of tensors, in training"});
  }
  add_lost(run, figures);
  return figures;
}

}  // namespace mezzo::report
