// The rows of a plan, without a network.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "mezzo/amp/eight_bits.h"
#include "mezzo/amp/precision_plan.h"
#include "mezzo/core/error.h"
#include "mezzo/ops/dispatcher/registry.h"

namespace mezzo::amp {
namespace {

constexpr const char* kRowsOp = "plan";

const OpDef& op_of_row(const PlanRow& row) {
  const OpDef* op = find_op(row.op);
  check_arg(op != nullptr, kRowsOp, "`", row.text(), "`: there is no operation `", row.op,
            "`. `mezzo ops` lists them");
  return *op;
}

void check_row(const PlanRow& row) {
  const OpDef& op = op_of_row(row);
  if (row.dtype == DType::kE4m3) {
    check_arg(has_scaled_form(op), kRowsOp, "`", row.text(),
              "` cannot be planned in e4m3. Only linear, matmul and conv2d, where its kernel is "
              "1x1, have eight bits");
    return;
  }
  check_arg(takes_part(row.dtype), kRowsOp, "`", row.text(), "` cannot be planned in ", row.dtype,
            ". Use ", trainable_dtypes());
  const bool is_refused =
      is_lower(row.dtype) && op.precision.of(row.dtype) == PrecisionClass::kRefuse;
  check_arg(!is_refused, kRowsOp, "`", row.text(), "` is not safe in ", row.dtype, ": ",
            op.precision.reason != nullptr ? op.precision.reason : "it is refused",
            ". Plan it in f32");
}

}  // namespace

const PlanRow* PrecisionPlan::find(std::string_view module, std::string_view op) const {
  const auto found = std::ranges::find_if(
      rows, [&](const PlanRow& row) { return row.module == module && row.op == op; });
  return found != rows.end() ? &*found : nullptr;
}

bool PrecisionPlan::has(DType dtype) const { return count(dtype) > 0; }

std::int64_t PrecisionPlan::count(DType dtype) const {
  return std::ranges::count(rows, dtype, &PlanRow::dtype);
}

Policy PrecisionPlan::policy() const {
  // f16 decides whether losses are scaled.
  for (const DType dtype : {DType::kF16, DType::kBf16}) {
    if (has(dtype)) return {.level = Level::kAuto, .lower = dtype};
  }
  if (has(DType::kE4m3)) return {.level = Level::kAuto, .lower = DType::kBf16};
  return {.level = Level::kO0};
}

void check_plan(const PrecisionPlan& plan) {
  std::set<std::pair<std::string, std::string>> seen;
  std::map<std::string, DType> lower_of;  // by module
  for (const PlanRow& row : plan.rows) {
    check_row(row);
    check_arg(seen.emplace(row.module, row.op).second, kRowsOp, "`", row.text(),
              "` stands there twice. Remove one of the rows");
    const DType own = dtype_beside(row.dtype);
    if (!is_lower(own)) continue;
    const DType lower = lower_of.emplace(row.module, own).first->second;
    check_arg(own == lower, kRowsOp, "`", row.text(), "` is in ", row.dtype,
              ", and another operation of that module in ", lower,
              ". A module has one 16-bit dtype: use one of the two");
  }
}

}  // namespace mezzo::amp
