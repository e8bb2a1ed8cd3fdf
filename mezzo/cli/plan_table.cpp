#include "mezzo/cli/plan_table.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "mezzo/cli/table.h"

namespace mezzo::cli {
namespace {

bool has_casts(const std::vector<PlanRow>& rows) {
  return std::ranges::any_of(rows, [](const PlanRow& row) { return !row.casts.empty(); });
}

// A table whose last column is `last` of each row.
template <class Last>
PlanCells cells_of(const std::vector<PlanRow>& rows, const char* head, const Last& last) {
  const bool casts = has_casts(rows);
  PlanCells cells{{"path", "op", "dtype", "rule"}};
  if (casts) cells[0].emplace_back("casts");
  cells[0].emplace_back(head);
  for (const PlanRow& row : rows) {
    cells.push_back({row.path, row.op, row.dtype, row.rule});
    if (casts) cells.back().push_back(row.casts);
    cells.back().push_back(last(row));
  }
  return cells;
}

// A reason, and the number of calls of each operation that it applies to.
struct Reason {
  std::string rule{};
  std::string text{};
  std::vector<std::pair<std::string, int>> calls{};

  bool is_of(const PlanRow& row) const { return rule == row.rule && text == row.reason; }
  void count(const std::string& op) {
    const auto found = std::ranges::find(calls, op, &std::pair<std::string, int>::first);
    found != calls.end() ? void(++found->second) : void(calls.emplace_back(op, 1));
  }
  // `conv2d 53, linear 1`
  std::string calls_text() const {
    std::string text_of_calls;
    for (const auto& [op, times] : calls) {
      text_of_calls += fmt::format("{}{} {}", text_of_calls.empty() ? "" : ", ", op, times);
    }
    return text_of_calls;
  }
};

// All reasons. Those of one rule are adjacent, and rules keep the order in which they first occur.
std::vector<Reason> reasons_of(const std::vector<PlanRow>& rows) {
  std::vector<Reason> reasons;
  for (const PlanRow& row : rows) {
    auto found = std::ranges::find_if(reasons, [&](const Reason& one) { return one.is_of(row); });
    if (found == reasons.end()) {
      const auto last = std::find_if(reasons.rbegin(), reasons.rend(),
                                     [&](const Reason& one) { return one.rule == row.rule; });
      const auto place = last == reasons.rend() ? reasons.end() : last.base();
      found = reasons.insert(place, {.rule = row.rule, .text = row.reason});
    }
    found->count(row.op);
  }
  return reasons;
}

}  // namespace

std::vector<PlanRow> rows_of(const amp::Plan& plan) {
  std::vector<PlanRow> rows;
  for (const amp::PlannedOp& op : plan.ops) {
    rows.push_back({.path = op.path,
                    .op = op.op,
                    .dtype = name_of(op.dtype),
                    .rule = op.rule,
                    .casts = amp::describe_casts(op),
                    .reason = op.reason});
  }
  return rows;
}

NumberedPlan number_reasons(const std::vector<PlanRow>& rows) {
  const std::vector<Reason> reasons = reasons_of(rows);
  const auto number_of = [&](const PlanRow& row) {
    const auto found =
        std::ranges::find_if(reasons, [&](const Reason& one) { return one.is_of(row); });
    return std::to_string(found - reasons.begin() + 1);
  };
  NumberedPlan plan{.calls = cells_of(rows, "why", number_of),
                    .reasons = {{"why", "rule", "calls", "reason"}}};
  for (std::size_t i = 0; i < reasons.size(); ++i) {
    plan.reasons.push_back(
        {std::to_string(i + 1), reasons[i].rule, reasons[i].calls_text(), reasons[i].text});
  }
  return plan;
}

std::string plan_table(const std::vector<PlanRow>& rows, bool wide) {
  const std::string whole =
      format_table(cells_of(rows, "reason", [](const PlanRow& row) { return row.reason; }));
  if (wide || width_of(whole) <= kPlanWidth) return whole;
  const NumberedPlan plan = number_reasons(rows);
  const std::vector<std::size_t> casts{has_casts(rows) ? std::size_t{4} : std::size_t{0}};
  return format_table(plan.calls, kPlanWidth, casts) + '\n' +
         format_table(plan.reasons, kPlanWidth, {2, 3});
}

}  // namespace mezzo::cli
