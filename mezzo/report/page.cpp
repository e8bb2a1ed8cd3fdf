#include "mezzo/report/page.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/io/atomic_file.h"
#include "mezzo/report/exponent_chart.h"
#include "mezzo/report/line_chart.h"
#include "mezzo/report/style.h"
#include "mezzo/report/text.h"
#include "mezzo/report/verdict.h"

namespace mezzo::report {
namespace {

constexpr const char* kOp = "report";

std::string element(std::string_view tag, std::string_view text) {
  return concat("<", tag, ">", escape(text), "</", tag, ">\n");
}

std::string note(std::string_view text) {
  return concat("<p class=\"note\">", escape(text), "</p>\n");
}

std::string figure(const std::string& svg) { return concat("<figure>\n", svg, "</figure>\n"); }

std::string table_row(const std::vector<std::string>& cells, std::string_view tag) {
  std::string row = "<tr>";
  for (const std::string& cell : cells) row += concat("<", tag, ">", escape(cell), "</", tag, ">");
  return row + "</tr>\n";
}

std::string table(const Table& content) {
  std::string html = "<div class=\"wide\"><table>\n<thead>" + table_row(content.header, "th") +
                     "</thead>\n<tbody>\n";
  for (const auto& row : content.rows) html += table_row(row, "td");
  return html + "</tbody></table></div>\n";
}

// Keeps a number and its percent sign on one line.
std::string with_whole_percentages(std::string text) {
  constexpr std::string_view kSign = " %";
  constexpr std::string_view kUnbroken = "\u00a0%";
  for (std::size_t at = text.find(kSign); at != std::string::npos; at = text.find(kSign, at)) {
    text.replace(at, kSign.size(), kUnbroken);
  }
  return text;
}

std::string verdict_box(const RunData& run) {
  std::string html = "<div class=\"verdict\">\n";
  for (const std::string& sentence : verdict(run)) {
    html += element("p", with_whole_percentages(sentence));
  }
  return html + "</div>\n";
}

std::string configuration(const RunData& run) {
  if (run.configuration.empty()) return {};
  std::string html = "<dl class=\"facts\">\n";
  for (const auto& [name, value] : run.configuration) {
    html += "<div>" + element("dt", name) + element("dd", value) + "</div>\n";
  }
  return html + "</dl>\n";
}

template <class Record>
Series series_of(const std::string& name, const std::vector<Record>& records,
                 std::int64_t Record::*x, double Record::*y) {
  Series series{.name = name};
  for (const Record& record : records) {
    series.points.push_back({static_cast<double>(record.*x), record.*y});
  }
  return series;
}

// The reason why a step was skipped.
std::string reason_of(const StepRecord& step) {
  if (step.nonfinite_loss) return "the loss";
  return step.culprit.empty() ? "not recorded" : step.culprit;
}

std::vector<Mark> marks_of(const RunData& run) {
  std::vector<Mark> marks;
  for (const StepRecord& step : run.steps) {
    if (!step.skipped) continue;
    marks.push_back(
        {static_cast<double>(step.step), concat("step ", step.step, " was skipped",
                                                step.culprit.empty() ? "" : ": ", step.culprit)});
  }
  return marks;
}

// A chart of one value per step for every run.
LineChart step_chart(std::span<const RunData> runs, const std::string& label,
                     double StepRecord::*value) {
  LineChart chart{.label = label, .x_label = "step"};
  for (const RunData& run : runs) {
    chart.series.push_back(series_of(run.name, run.steps, &StepRecord::step, value));
  }
  if (runs.size() == 1) chart.marks = marks_of(runs.front());
  chart.y_axis = axis_for(chart.series);
  return chart;
}

std::string loss_chart(std::span<const RunData> runs) {
  return figure(to_svg(step_chart(runs, "Training loss by step", &StepRecord::loss)));
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
  return element("h3", "Test accuracy, in percent") + figure(to_svg(chart));
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
  return element("h3", "Test loss") + figure(to_svg(chart));
}

// How the network did on the test set as it was trained. All runs of a page have one model.
std::string test_chart(std::span<const RunData> runs) {
  return runs.front().has_accuracy ? accuracy_chart(runs) : test_loss_chart(runs);
}

// Whether a value was the same in all steps, of which there must be some. A chart of it would say
// less than the value.
bool never_changes(const RunData& run, double StepRecord::*value) {
  return std::ranges::all_of(
      run.steps, [&](const StepRecord& step) { return step.*value == run.steps.front().*value; });
}

std::string constant_text(const RunData& run, const std::string& value) {
  return element("p", concat(value, run.steps.size() == 1 ? "." : " in every step."));
}

std::string lr_section(const RunData& run) {
  const std::string head = element("h3", "Learning rate");
  if (never_changes(run, &StepRecord::lr)) {
    return head + constant_text(run, format_number(run.steps.front().lr, 6));
  }
  LineChart chart = step_chart({&run, 1}, "Learning rate by step", &StepRecord::lr);
  chart.marks.clear();
  chart.y_axis = AxisKind::kLinear;
  chart.from_zero = true;
  return head + figure(to_svg(chart));
}

std::string picture(const Picture& image) {
  const std::string label = escape(image.label);
  return concat("<figure><img alt=\"", label, "\" width=\"", image.width, "\" height=\"",
                image.height, "\" src=\"data:image/png;base64,", base64(image.png),
                "\"/><figcaption>", label, "</figcaption></figure>\n");
}

// The network's first input: shows at a glance whether images, labels and augmentation are right.
std::string batch_section(const RunData& run) {
  if (run.first_batch.empty()) return {};
  const auto shown = static_cast<std::int64_t>(run.first_batch.size());
  std::string html = element("h2", "First batch");
  html += note(
      concat(shown < run.batch_size ? concat("The first ", shown, " of ") : "All ",
             count_of(run.batch_size, "image"),
             ", as the network sees them: after augmentation, if any, and with the normalization "
             "undone."));
  html += "<div class=\"pictures\">\n";
  for (const Picture& image : run.first_batch) html += picture(image);
  return html + "</div>\n";
}

// The skipped steps, one row each; only the first ones if there are very many.
std::string skipped_table(const RunData& run) {
  constexpr std::size_t kMostRows = 50;
  Table content{.header = {"step", "loss scale", "loss", "first value that was not finite"}};
  std::size_t skipped = 0;
  for (const StepRecord& step : run.steps) {
    if (!step.skipped || ++skipped > kMostRows) continue;
    content.rows.push_back({std::to_string(step.step), format_scale(step.scale),
                            format_number(step.loss), reason_of(step)});
  }
  if (skipped == 0) return {};
  std::string html = element("h3", "Skipped steps") + table(content);
  if (skipped > kMostRows) html += note(concat("and ", skipped - kMostRows, " more."));
  return html;
}

// The norms of gradients, if they are clipped.
std::string norm_section(const RunData& run) {
  LineChart chart{.label = "Norm of the gradients before clipping, by step", .x_label = "step"};
  Series series{.name = run.name};
  for (const StepRecord& step : run.steps) {
    if (step.grad_norm.has_value()) {
      series.points.push_back({static_cast<double>(step.step), *step.grad_norm});
    }
  }
  if (series.points.empty()) return {};
  chart.series.push_back(std::move(series));
  chart.marks = marks_of(run);
  chart.y_axis = axis_for(chart.series);
  return element("h3", "Gradient norm") + figure(to_svg(chart));
}

std::string scale_section(const RunData& run) {
  if (!run.is_scaled || run.steps.empty()) return {};
  const std::string head = element("h3", "Loss scale");
  if (never_changes(run, &StepRecord::scale)) {
    return head + constant_text(run, format_scale(run.steps.front().scale)) + skipped_table(run);
  }
  LineChart chart = step_chart({&run, 1}, "Loss scale by step", &StepRecord::scale);
  chart.y_axis = AxisKind::kLog2;
  chart.is_stepped = true;
  return head + figure(to_svg(chart)) + skipped_table(run);
}

std::string training_section(const RunData& run) {
  if (run.steps.empty()) return {};
  std::string html = element("h2", "Training") + element("h3", "Loss") + loss_chart({&run, 1}) +
                     test_chart({&run, 1}) + norm_section(run) + scale_section(run);
  // Even without a scaler, steps may have been skipped, and they deserve a row.
  if (!run.is_scaled) html += skipped_table(run);
  return html + lr_section(run);
}

constexpr const char* kFateKeys =
    "<p class=\"note\"><span class=\"key\"><i class=\"kept\"></i>normal in f16</span> "
    "<span class=\"key\"><i class=\"weak\"></i>subnormal in f16: fewer bits</span> "
    "<span class=\"key\"><i class=\"lost\"></i>becomes zero in f16</span> "
    "<span class=\"key\"><i class=\"over\"></i>overflows f16</span></p>\n";

std::string gradient_section(const RunData& run, const std::string& title,
                             std::span<const amp::GradientHistogram> histograms,
                             const std::string& row) {
  if (histograms.empty()) return {};
  const ExponentChart bars{.label = title + " by binary exponent", .shift = shown_shift(run)};
  const ExponentChart map{.label = title + " by binary exponent, one row per " + row,
                          .shift = bars.shift};
  std::string html = element("h2", title);
  html += note(concat("Gradients without the loss scale, by powers of two, counted in ",
                      counted_text(run),
                      ". Zeros are left out. Colours show what f16 does to them without scaling; "
                      "the strips on top show the range of each type."));
  html += kFateKeys;
  html += element("h3", "All together") + figure(bars_to_svg(amp::sum_of(histograms, "all"), bars));
  html += element("h3", concat("By ", row)) + figure(heat_map_to_svg(histograms, map));
  return html;
}

std::string plan_section(const RunData& run) {
  if (run.plan.rows.empty()) return {};
  std::string html = element("h2", "Precision plan") + table(run.plan);
  if (!run.reasons.rows.empty()) html += element("h3", "Reasons") + table(run.reasons);
  return html;
}

// The page of a part of a run says so first, since its curves begin in the middle.
std::string resume_note(const RunData& run) {
  if (run.resumed_after == 0) return {};
  return note(concat("This run was resumed from a checkpoint. The page begins with step ",
                     run.resumed_after + 1, ": the ", count_of(run.resumed_after, "step"),
                     " before it are in the report and the events of the run that made them."));
}

std::string run_sections(const RunData& run) {
  return resume_note(run) + verdict_box(run) + configuration(run) + training_section(run) +
         batch_section(run) +
         gradient_section(run, "Parameter gradients", run.gradients, "parameter") +
         gradient_section(run, "Activation gradients", run.activation_gradients, "module") +
         plan_section(run);
}

// The accuracy or the perplexity after the last epoch.
std::string quality_text(const RunData& run) {
  const EpochRecord& last = run.epochs.back();
  return run.has_accuracy ? format_fixed(100 * last.accuracy, 2) + " %"
                          : format_fixed(std::exp(last.test_loss), 2);
}

std::vector<std::string> comparison_row(const RunData& run) {
  const auto skipped = std::ranges::count_if(run.steps, &StepRecord::skipped);
  const bool has_test = !run.epochs.empty();
  const amp::GradientHistogram sum = amp::sum_of(run.gradients, "");
  return {run.name,
          has_test ? quality_text(run) : "",
          has_test ? format_number(run.epochs.back().test_loss) : "",
          std::to_string(run.steps.size()),
          std::to_string(skipped),
          sum.counts.finite_nonzero() > 0
              ? concat(format_part(sum.lost_in(DType::kF16)), " in ", counted_text(run))
              : ""};
}

std::string comparison(const Report& report) {
  const bool has_accuracy = report.runs.front().has_accuracy;
  Table content{.header = {"run", has_accuracy ? "test accuracy" : "test perplexity", "test loss",
                           "steps", "skipped", "gradients that f16 loses unscaled"}};
  for (const RunData& run : report.runs) content.rows.push_back(comparison_row(run));
  return element("h2", "Comparison") + table(content) + element("h3", "Loss") +
         loss_chart(report.runs) + test_chart(report.runs);
}

}  // namespace

std::string to_html(const Report& report) {
  std::string html = concat(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n",
      element("title", report.title), "<style>", kStyle, "</style>\n</head>\n<body>\n<main>\n",
      element("h1", report.title), "<p class=\"sub\">mezzo training report</p>\n");
  if (report.runs.size() == 1) {
    html += run_sections(report.runs.front());
  } else if (!report.runs.empty()) {
    html += comparison(report);
    for (const RunData& run : report.runs) {
      html += "<article>\n" + element("h2", run.name) + run_sections(run) + "</article>\n";
    }
  }
  return html + "</main>\n</body>\n</html>\n";
}

void write_page(const std::string& path, const Report& report) {
  const std::string html = to_html(report);
  io::write_file(path, std::as_bytes(std::span(html.data(), html.size())), kOp);
}

void check_writable(const std::string& path) { io::check_writable(path, kOp); }

}  // namespace mezzo::report
