#include "mezzo/train/plan_in_use.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "mezzo/core/log.h"
#include "mezzo/distributed/average.h"
#include "mezzo/graph/train_step.h"
#include "mezzo/tune/plan_file.h"

namespace mezzo::train {
namespace {

constexpr const char* kPlanSection = "precision_plan";
constexpr const char* kPlanText = "text";

// What any process has found, the same in all. Each exchanges one number, and only if some process
// has found something one more for each row that may be widened.
std::vector<tune::RangeFinding> found_by_any(std::vector<tune::RangeFinding> own,
                                             const amp::PrecisionPlan& plan,
                                             distributed::ProcessGroup* processes) {
  if (processes == nullptr || !distributed::any(*processes, !own.empty())) return own;
  std::vector<tune::RangeFinding> all;
  for (const amp::PlanRow& row : plan.rows) {
    if (!is_lower(row.dtype) || !has_narrow_range(row.dtype)) continue;
    const auto found = std::ranges::find_if(own, [&](const tune::RangeFinding& finding) {
      return finding.module == row.module && finding.op == row.op;
    });
    if (!distributed::any(*processes, found != own.end())) continue;
    all.push_back(found != own.end()
                      ? *found
                      : tune::RangeFinding{.module = row.module,
                                           .op = row.op,
                                           .reason = "its results left the range of f16 in "
                                                     "another process"});
  }
  return all;
}

}  // namespace

std::string WidenEvent::text() const {
  const amp::PlanRow row{.module = module, .op = op};
  return concat("`", row.text(), "` is computed in f32 from now on, not in ", from, ": ", reason);
}

PlanInUse::PlanInUse(Trainer& trainer, const RunOptions& options, RunObserver& observer)
    : trainer_(trainer), options_(options), observer_(observer), plan_(*options.plan) {}

void PlanInUse::use(amp::PrecisionPlan plan) {
  amp::apply_plan(*trainer_.net, plan);
  plan_ = std::move(plan);
  if (trainer_.watch != nullptr) trainer_.watch->set_plan(plan_);
  // What was captured has the dtypes from before.
  if (options_.graph) trainer_.model.train_step().set_execution(graph::captured(*trainer_.net));
}

void PlanInUse::on_train_begin(FitState& state) {
  if (trainer_.watch == nullptr) return;
  trainer_.watch->set_steps_before(state.step, trainer_.model.train_step().skipped_in_a_row() > 0);
}

void PlanInUse::on_step_end(FitState& state) {
  if (trainer_.watch == nullptr || !trainer_.watch->has_looked()) return;
  const std::vector<tune::RangeFinding> findings =
      found_by_any(trainer_.watch->take_findings(), plan_, options_.processes);
  if (findings.empty()) return;
  amp::PrecisionPlan plan = plan_;
  for (const tune::RangeFinding& finding : findings) {
    const WidenEvent event{.step = state.step,
                           .module = finding.module,
                           .op = finding.op,
                           .from = plan.find(finding.module, finding.op)->dtype,
                           .reason = finding.reason};
    plan = tune::widened(std::move(plan), finding);
    logging::write(logging::Topic::kAmp, event.text());
    observer_.on_widened(event);
  }
  use(std::move(plan));
}

void PlanInUse::save(io::Checkpoint& checkpoint) const {
  checkpoint.values[section(kPlanSection)] = {{kPlanText, amp::plan_text(plan_)}};
}

// The configuration has been compared, so the run began with the same plan.
void PlanInUse::load(const io::Checkpoint& checkpoint) {
  const auto& text = checkpoint.value<std::string>(section(kPlanSection), kPlanText);
  use(amp::plan_of_text(text, "the plan in the checkpoint"));
}

}  // namespace mezzo::train
