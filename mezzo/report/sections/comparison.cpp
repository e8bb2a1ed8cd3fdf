#include <algorithm>

#include "mezzo/core/error.h"
#include "mezzo/report/html.h"
#include "mezzo/report/key_figures.h"
#include "mezzo/report/sections/sections.h"
#include "mezzo/report/step_charts.h"
#include "mezzo/report/text.h"
#include "mezzo/report/verdict.h"

namespace mezzo::report {
namespace {

std::vector<std::string> comparison_row(const RunData& run) {
  const auto skipped = std::ranges::count_if(run.steps, &StepRecord::skipped);
  const bool has_test = !run.epochs.empty();
  const auto ms = step_ms_of(run);
  const amp::GradientHistogram sum = amp::sum_of(run.gradients, "");
  return {run.name,
          has_test ? quality_text(run) : "",
          has_test ? format_number(run.epochs.back().test_loss) : "",
          std::to_string(run.steps.size()),
          std::to_string(skipped),
          ms ? format_number(*ms, 3) : "",
          run.peak_memory,
          sum.counts.finite_nonzero() > 0
              ? concat(format_part(sum.lost_in(DType::kF16)), " in ", counted_text(run))
              : ""};
}

}  // namespace

Section comparison_section(const std::vector<RunData>& runs) {
  Section section{.id = "comparison", .title = "Comparison"};
  if (runs.size() < 2) return section;
  const bool has_accuracy = runs.front().has_accuracy;
  Table content{.header = {"run", has_accuracy ? "test accuracy" : "test perplexity", "test loss",
                           "steps", "skipped", "ms/step", "peak memory",
                           "gradients that f16 loses unscaled"}};
  for (const RunData& run : runs) content.rows.push_back(comparison_row(run));
  section.add(table(content, "The runs side by side"));
  section.add("Loss", loss_chart(runs));
  section.add(test_chart_title(runs), test_chart(runs));
  return section;
}

}  // namespace mezzo::report
