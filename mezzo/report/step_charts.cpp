#include "mezzo/report/step_charts.h"

#include <algorithm>

#include "mezzo/core/error.h"
#include "mezzo/report/html.h"

namespace mezzo::report {
namespace {

template <class Record>
Series series_of(const std::string& name, const std::vector<Record>& records,
                 std::int64_t Record::*x, double Record::*y) {
  Series series{.name = name};
  for (const Record& record : records) {
    series.points.push_back({static_cast<double>(record.*x), record.*y});
  }
  return series;
}

// In percent, so that the axis needs no explanation. A single epoch makes no curve; its value is in
// the verdict.
std::string accuracy_chart(std::span<const RunData> runs) {
  if (std::ranges::all_of(runs, [](const RunData& run) { return run.epochs.size() < 2; })) {
    return {};
  }
  LineChart chart{
      .label = "Test accuracy by epoch, in percent", .x_label = "epoch", .has_dots = true};
  for (const RunData& run : runs) {
    chart.series.push_back(
        series_of(run.name, run.epochs, &EpochRecord::epoch, &EpochRecord::accuracy));
    for (Point& point : chart.series.back().points) point.y *= 100;
  }
  return figure(to_svg(chart));
}

// Of language models, which have no accuracy. A single evaluation makes no curve.
std::string test_loss_chart(std::span<const RunData> runs) {
  LineChart chart{.label = "Test loss by step", .x_label = "step", .has_dots = true};
  for (const RunData& run : runs) {
    chart.series.push_back(
        series_of(run.name, run.evaluations, &EvaluationRecord::step, &EvaluationRecord::loss));
  }
  if (std::ranges::all_of(chart.series, [](const Series& one) { return one.points.size() < 2; })) {
    return {};
  }
  chart.y_axis = axis_for(chart.series);
  return figure(to_svg(chart));
}

}  // namespace

std::vector<Mark> skipped_marks(const RunData& run) {
  std::vector<Mark> marks;
  for (const StepRecord& step : run.steps) {
    if (!step.skipped) continue;
    marks.push_back(
        {static_cast<double>(step.step), concat("step ", step.step, " was skipped",
                                                step.culprit.empty() ? "" : ": ", step.culprit)});
  }
  return marks;
}

LineChart step_chart(std::span<const RunData> runs, const std::string& label,
                     double StepRecord::*value) {
  LineChart chart{.label = label, .x_label = "step"};
  for (const RunData& run : runs) {
    chart.series.push_back(series_of(run.name, run.steps, &StepRecord::step, value));
  }
  if (runs.size() == 1) chart.marks = skipped_marks(runs.front());
  chart.y_axis = axis_for(chart.series);
  return chart;
}

std::string loss_chart(std::span<const RunData> runs) {
  return figure(to_svg(step_chart(runs, "Training loss by step", &StepRecord::loss)));
}

std::string test_chart(std::span<const RunData> runs) {
  return runs.front().has_accuracy ? accuracy_chart(runs) : test_loss_chart(runs);
}

std::string test_chart_title(std::span<const RunData> runs) {
  return runs.front().has_accuracy ? "Test accuracy, in percent" : "Test loss";
}

}  // namespace mezzo::report
