// The table of operations in `mezzo plan` and in reports, where each reason appears once.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "mezzo/amp/plan.h"

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
