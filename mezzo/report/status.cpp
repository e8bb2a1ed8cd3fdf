#include "mezzo/report/status.h"

#include <algorithm>

#include "mezzo/core/error.h"
#include "mezzo/report/text.h"

namespace mezzo::report {
namespace {

// The last step that was done, counted from the beginning of the run.
std::int64_t last_step(const RunData& run) {
  return run.steps.empty() ? run.resumed_after : run.steps.back().step;
}

std::string step_text(const RunData& run) {
  const std::int64_t total = run.total_steps;
  return concat("step ", last_step(run), total > 0 ? concat(" of ", total) : "");
}

}  // namespace

bool is_running(const Report& report) {
  return !report.runs.empty() && report.runs.back().is_running;
}

std::string status_text(const Report& report) {
  if (report.runs.empty()) return {};
  const RunData& run = report.runs.back();
  const std::size_t runs = std::max(report.total_runs, report.runs.size());
  const std::string which = runs > 1 ? concat("run ", report.runs.size(), " of ", runs, ", ") : "";
  if (run.is_running) return concat("Running: ", which, step_text(run), ".");
  if (report.runs.size() < runs || last_step(run) < run.total_steps) {
    return concat("Ended after ", which, step_text(run), ".");
  }
  return runs > 1 ? concat("Finished: ", count_of(static_cast<std::int64_t>(runs), "run"), ".")
                  : concat("Finished after ", count_of(last_step(run), "step"), ".");
}

std::string tab_text(const Report& report) {
  if (!is_running(report) || report.runs.back().total_steps <= 0) return report.title;
  const RunData& run = report.runs.back();
  const auto runs = static_cast<std::int64_t>(std::max(report.total_runs, report.runs.size()));
  const std::int64_t done =
      (std::ssize(report.runs) - 1) * 100 + 100 * last_step(run) / run.total_steps;
  return concat(done / runs, " % · ", report.title);
}

}  // namespace mezzo::report
