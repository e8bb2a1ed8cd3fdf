#include <algorithm>
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/report/html.h"
#include "mezzo/report/sections/sections.h"
#include "mezzo/report/step_charts.h"
#include "mezzo/report/text.h"

namespace mezzo::report {
namespace {

// Whether a value was the same in all steps, of which there must be some. A chart of it would say
// less than the value.
bool never_changes(const RunData& run, double StepRecord::*value) {
  return std::ranges::all_of(
      run.steps, [&](const StepRecord& step) { return step.*value == run.steps.front().*value; });
}

std::string constant_text(const RunData& run, const std::string& value) {
  return element("p", concat(value, run.steps.size() == 1 ? "." : " in every step."));
}

std::string lr_part(const RunData& run) {
  if (never_changes(run, &StepRecord::lr)) {
    return constant_text(run, format_number(run.steps.front().lr, 6));
  }
  LineChart chart = step_chart({&run, 1}, "Learning rate by step", &StepRecord::lr);
  chart.marks.clear();
  chart.y_axis = AxisKind::kLinear;
  chart.from_zero = true;
  return figure(to_svg(chart));
}

std::string time_part(const RunData& run) {
  if (never_changes(run, &StepRecord::ms)) return {};  // not measured
  LineChart chart =
      step_chart({&run, 1}, "Time of a step by step, in milliseconds", &StepRecord::ms);
  chart.marks.clear();
  return figure(to_svg(chart));
}

// The norms of gradients, if they are clipped.
std::string norm_part(const RunData& run) {
  LineChart chart{.label = "Norm of the gradients before clipping, by step", .x_label = "step"};
  Series series{.name = run.name};
  for (const StepRecord& step : run.steps) {
    if (step.grad_norm.has_value()) {
      series.points.push_back({static_cast<double>(step.step), *step.grad_norm});
    }
  }
  if (series.points.empty()) return {};
  chart.series.push_back(std::move(series));
  chart.marks = skipped_marks(run);
  chart.y_axis = axis_for(chart.series);
  return figure(to_svg(chart));
}

std::string scale_part(const RunData& run) {
  if (!run.is_scaled) return {};
  if (never_changes(run, &StepRecord::scale)) {
    return constant_text(run, format_scale(run.steps.front().scale));
  }
  LineChart chart = step_chart({&run, 1}, "Loss scale by step", &StepRecord::scale);
  chart.y_axis = AxisKind::kLog2;
  chart.is_stepped = true;
  return figure(to_svg(chart));
}

// The reason why a step was skipped.
std::string reason_of(const StepRecord& step) {
  if (step.nonfinite_loss) return "the loss";
  return step.culprit.empty() ? "not recorded" : step.culprit;
}

// The skipped steps, one row each; only the first ones if there are very many. Even without a
// scaler, steps may have been skipped, and they deserve a row.
std::string skipped_part(const RunData& run) {
  constexpr std::size_t kMostRows = 50;
  Table content{.header = {"step", "loss scale", "loss", "first value that was not finite"}};
  std::size_t skipped = 0;
  for (const StepRecord& step : run.steps) {
    if (!step.skipped || ++skipped > kMostRows) continue;
    content.rows.push_back({std::to_string(step.step), format_scale(step.scale),
                            format_number(step.loss), reason_of(step)});
  }
  if (skipped == 0) return {};
  std::string html = table_folded_if_long(content, "Skipped steps and what was not finite in them");
  if (skipped > kMostRows) html += note(concat("and ", skipped - kMostRows, " more."));
  return html;
}

}  // namespace

Section training_section(const RunData& run) {
  Section section{.id = "training", .title = "Training"};
  if (run.steps.empty()) return section;
  section.add("Loss", loss_chart({&run, 1}));
  section.add(test_chart_title({&run, 1}), test_chart({&run, 1}));
  section.add("Gradient norm", norm_part(run));
  section.add("Loss scale", scale_part(run));
  section.add("Skipped steps", skipped_part(run));
  section.add("Learning rate", lr_part(run));
  section.add("Step time, in milliseconds", time_part(run));
  return section;
}

}  // namespace mezzo::report
