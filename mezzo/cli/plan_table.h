// The table of operations in `mezzo plan` and in reports, where each reason appears once.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "mezzo/amp/plan.h"
#include "mezzo/amp/precision_plan.h"

namespace mezzo::cli {

inline constexpr std::size_t kPlanWidth = 100;  // columns of a line without --wide

// One call of an operation, as text.
struct PlanRow {
  std::string path{};
  std::string op{};
  std::string dtype{};
  std::string rule{};
  std::string casts{};  // empty in all rows of a plan that lists casts separately
  std::string reason{};
};

// Calls of an operation that a plan has a row for are explained by it, not by the rule that it
// made: amp::PlannedOp or graph::PaintedCall. Null: all stay.
template <class Call>
void explain_by(const amp::PrecisionPlan* plan, std::vector<Call>& calls) {
  if (plan == nullptr) return;
  for (Call& call : calls) {
    const amp::PlanRow* row = plan->find(call.path, call.op);
    if (row == nullptr) continue;
    call.rule = "plan";
    call.reason = row->reason.empty() ? "the plan says so" : row->reason;
  }
}

std::vector<PlanRow> rows_of(const amp::Plan& plan);

// Rows of cells; the first row holds the headers.
using PlanCells = std::vector<std::vector<std::string>>;

// The calls with the numbers of their reasons, and the reasons by number. Reasons of one rule are
// adjacent, and each lists the operations that it applies to.
struct NumberedPlan {
  PlanCells calls{};
  PlanCells reasons{};
};
NumberedPlan number_reasons(const std::vector<PlanRow>& rows);

// One line per row with its reason, if `wide` is set or the line fits kPlanWidth. Otherwise the
// rows have the numbers of their reasons, which are listed below.
std::string plan_table(const std::vector<PlanRow>& rows, bool wide);

}  // namespace mezzo::cli
