// What `mezzo plan` and reports show of operations: a table, and each reason once.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "mezzo/amp/plan.h"

namespace mezzo::cli {

inline constexpr std::size_t kPlanWidth = 100;  // columns of a line, unless --wide asks for more

// One call of an operation, as text.
struct PlanRow {
  std::string path{};
  std::string op{};
  std::string dtype{};
  std::string rule{};
  std::string casts{};  // empty in all rows of a plan that counts them apart
  std::string reason{};
};

std::vector<PlanRow> rows_of(const amp::Plan& plan);

// Rows of cells, the first of them headers.
using PlanCells = std::vector<std::vector<std::string>>;

// The calls with numbers for their reasons; and the reasons by number, those of one rule side by
// side, with the operations that they are for.
struct NumberedPlan {
  PlanCells calls{};
  PlanCells reasons{};
};
NumberedPlan number_reasons(const std::vector<PlanRow>& rows);

// A line for each row with its reason, if that is `wide` or fits kPlanWidth. Else the rows have the
// numbers of their reasons, which stand below.
std::string plan_table(const std::vector<PlanRow>& rows, bool wide);

}  // namespace mezzo::cli
