#include "mezzo/report/tune_page.h"

#include <algorithm>
#include <span>
#include <vector>

#include "mezzo/core/error.h"
#include "mezzo/io/atomic_file.h"
#include "mezzo/report/document.h"
#include "mezzo/report/html.h"
#include "mezzo/report/line_chart.h"
#include "mezzo/report/section.h"
#include "mezzo/report/text.h"
#include "mezzo/report/tune_chart.h"

namespace mezzo::report {
namespace {

using tune::MeasuredChoice;
using tune::MeasuredOperation;
using tune::ProvedSetting;
using tune::TuneResult;

std::string in_megabytes(std::int64_t bytes) {
  return concat(format_number(static_cast<double>(bytes) / 1e6), " MB");
}

std::string tune_facts_of(const TuneResult& result) {
  const amp::PrecisionPlan& plan = result.plan;
  const ProvedSetting& chosen = result.settings[result.chosen];
  std::string counts;
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16, DType::kE4m3}) {
    if (plan.has(dtype))
      counts += concat(counts.empty() ? "" : ", ", plan.count(dtype), " in ", dtype);
  }
  std::string html = "<div class=\"verdict\">\n";
  html += element("p", concat("Of ", plan.rows.size(), " operations ", counts, ". A step takes ",
                              format_number(chosen.ms), " ms, and its gradients have an error of ",
                              tune::error_text(chosen.error.total), "."));
  html += element("p", concat("The budget of the error is ", tune::error_text(result.error_budget),
                              ": ", result.budget_from, "."));
  html += "</div>\n";
  return html + element("p", concat(plan.model, ", batches of ", plan.batch, "; ", plan.machine,
                                    ", ", plan.threads, " threads"));
}

std::string tune_remark_of(const TuneResult& result, std::size_t i) {
  const ProvedSetting& setting = result.settings[i];
  if (i == result.chosen) return "chosen";
  if (!setting.error.is_finite()) return "gradients are not finite";
  if (!setting.is_within) return "over the budget";
  return setting.is_best ? "on the Pareto front" : "";
}

std::string settings_html(const TuneResult& result) {
  Table rows{.header = {"setting", "ms per step", "predicted", "memory", "error", "predicted",
                        "of the loss", "cosine", "16 bits", ""}};
  for (std::size_t i = 0; i < result.settings.size(); ++i) {
    const ProvedSetting& setting = result.settings[i];
    const auto all = static_cast<std::int64_t>(setting.plan.rows.size());
    rows.rows.push_back(
        {setting.name, format_number(setting.ms), format_number(setting.predicted_ms),
         in_megabytes(setting.peak_bytes), tune::error_text(setting.error.total),
         tune::error_text(setting.predicted_error), tune::error_text(setting.error.loss),
         format_number(setting.error.cosine, 6),
         concat(all - setting.plan.count(DType::kF32), " of ", all), tune_remark_of(result, i)});
  }
  return table(rows, "The settings that were proved");
}

std::string tune_key(const char* css_class, const char* text) {
  return concat("<span class=\"key\"><i class=\"", css_class, "\"></i>", escape(text), "</span>\n");
}

Section settings_section(const TuneResult& result) {
  Section section{
      .id = "settings",
      .title = "Time and error",
      .intro = concat("Training steps of every setting, in turns, from the same weights. The error "
                      "is that of the gradients of ",
                      result.error_batches, " batches of ", result.error_examples,
                      " examples against ", result.exact,
                      ": the root mean square over the parameters of the relative 2-norm. "
                      "Predicted errors are the sums of what each operation does alone, in "
                      "squares; predicted times are those of kernels and casts, without the "
                      "update and what lies between the kernels.")};
  section.add(concat(figure(tune_chart(result)), "<p class=\"note\">", tune_key("level", "a level"),
                     tune_key("plan", "a plan"), tune_key("chosen", "the plan that was chosen"),
                     tune_key("over", "gradients are not finite"), "</p>\n"));
  section.add(settings_html(result));
  return section;
}

Section losses_section(const TuneResult& result) {
  Section section{
      .id = "losses",
      .title = "Losses",
      .intro = "Of the first steps of each setting, from the same weights and batches."};
  LineChart chart{.label = "The loss of each step", .x_label = "step", .has_dots = true};
  for (const ProvedSetting& setting : result.settings) {
    Series series{.name = setting.name};
    for (std::size_t i = 0; i < setting.losses.size(); ++i) {
      series.points.push_back({static_cast<double>(i + 1), setting.losses[i]});
    }
    chart.series.push_back(std::move(series));
  }
  section.add(figure(to_svg(chart)));
  return section;
}

std::string ms_and_error(const MeasuredChoice& choice) {
  return concat(format_number(choice.ms, 3), " ms, ", tune::error_text(choice.error.total));
}

std::vector<std::string> tune_row_of(const MeasuredOperation& operation) {
  std::vector<std::string> row{operation.operation.text(), operation.choice().choice.text()};
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16, DType::kE4m3}) {
    const auto found = std::ranges::find_if(operation.choices, [&](const MeasuredChoice& choice) {
      return choice.choice.dtype == dtype && !choice.choice.exact;
    });
    row.push_back(found == operation.choices.end() ? "" : ms_and_error(*found));
  }
  row.push_back(operation.reason);
  return row;
}

Section operations_section(const TuneResult& result) {
  Section section{.id = "operations",
                  .title = "Operations",
                  .intro =
                      "What each operation takes, forward and backward, and how large the error "
                      "of the gradients is if it alone has that dtype; in the order of the "
                      "network."};
  Table rows{.header = {"operation", "chosen", "in f32", "in bf16", "in f16", "in e4m3", "why"}};
  for (const MeasuredOperation& operation : result.operations)
    rows.rows.push_back(tune_row_of(operation));
  section.add(table(rows, "The operations"));
  if (result.noise.empty()) return section;
  Table noise{.header = {"parameter"}};
  for (const std::string& name : result.noise) noise.rows.push_back({name});
  section.add("Gradients that do not count",
              concat(note("In f32 already they are nothing but rounding noise, as that of a bias "
                          "before a batch norm is, whose true gradient is 0."),
                     details(count_of(std::ssize(result.noise), "parameter"),
                             table(noise, "Gradients that are rounding noise"))));
  return section;
}

}  // namespace

std::string tune_page(const TuneResult& result) {
  Document document{.title = concat("The precision plan of ", result.plan.model),
                    .kind = "mezzo tune",
                    .style = kTuneStyle};
  document.html = tune_facts_of(result);
  document.add({settings_section(result), operations_section(result), losses_section(result)}, {});
  return to_html(document);
}

void write_tune_page(const std::string& path, const TuneResult& result) {
  const std::string html = tune_page(result);
  io::write_file(path, std::as_bytes(std::span(html.data(), html.size())), "report");
}

}  // namespace mezzo::report
