#include "mezzo/amp/precision_plan.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "mezzo/amp/call_observer.h"
#include "mezzo/amp/eight_bits.h"
#include "mezzo/amp/module_precision.h"
#include "mezzo/core/error.h"
#include "mezzo/nn/inference.h"
#include "mezzo/ops/dispatcher/grad_mode.h"

namespace mezzo::amp {
namespace {

constexpr const char* kPlanOp = "plan";
constexpr const char* kRemake = ". Make a plan for this network by `mezzo tune`";

using RowsByModule = std::map<std::string, std::vector<const PlanRow*>>;

RowsByModule by_module(const PrecisionPlan& plan) {
  RowsByModule rows;
  for (const PlanRow& row : plan.rows) rows[row.module].push_back(&row);
  return rows;
}

// The 16-bit dtype of a module's rows; empty if all are f32.
std::optional<DType> lower_of_rows(const std::vector<const PlanRow*>& rows) {
  for (const PlanRow* row : rows) {
    if (is_lower(dtype_beside(row->dtype))) return dtype_beside(row->dtype);
  }
  return std::nullopt;
}

bool has_exact_row(const std::vector<const PlanRow*>& rows) {
  return std::ranges::any_of(rows, &PlanRow::exact);
}

// The eight bits of a plan: null if it has none. All modules share the histories.
std::shared_ptr<const EightBits> eight_bits_of(const PrecisionPlan& plan) {
  if (!plan.has(DType::kE4m3)) return nullptr;
  auto eight = std::make_shared<EightBits>(*make_eight_bits(usual_recipe(plan.scaling)));
  eight->everywhere = false;
  return eight;
}

// Those of a module, for its rows in e4m3.
std::shared_ptr<const EightBits> eight_bits_of_rows(const std::vector<const PlanRow*>& rows,
                                                    const std::shared_ptr<const EightBits>& all) {
  auto eight = all != nullptr ? std::make_shared<EightBits>(*all) : nullptr;
  for (const PlanRow* row : rows) {
    if (row->dtype == DType::kE4m3) eight->ops.push_back(row->op);
  }
  if (eight != nullptr) eight->everywhere = !eight->ops.empty();
  return eight;
}

// The policy of a module: its rows are rules for its operations.
Policy policy_of_rows(const std::vector<const PlanRow*>& of_module,
                      const std::shared_ptr<const EightBits>& eight) {
  const std::optional<DType> lower = lower_of_rows(of_module);
  if (!lower.has_value()) {
    return {.level = Level::kO3,
            .lower = DType::kF32,
            .eight_bits = eight_bits_of_rows(of_module, eight)};
  }
  OpRules rules;
  for (const PlanRow* row : of_module) {
    row->dtype == DType::kF32 ? rules.keep_float32(row->op) : rules.lower(row->op);
  }
  return {.level = Level::kAuto,
          .lower = *lower,
          .rules = std::make_shared<const OpRules>(std::move(rules)),
          .eight_bits = eight_bits_of_rows(of_module, eight)};
}

void check_modules(nn::Module& net, const PrecisionPlan& plan) {
  for (const PlanRow& row : plan.rows) {
    check_arg(net.find(row.module) != nullptr, kPlanOp, "the plan is for another network: it has `",
              row.text(), "`, and this network has no module `", row.module, "`", kRemake);
  }
}

class CollectCalls final : public CallObserver {
 public:
  void on_call(const ObservedCall& call) override {
    if (!is_plannable(call.op, call.after)) return;
    PlannableCall found{.module = nn::current_module_path(), .op = call.op.name};
    if (seen_.emplace(found.module, found.op).second) calls_.push_back(std::move(found));
  }

  std::vector<PlannableCall> take() { return std::move(calls_); }

 private:
  std::set<std::pair<std::string, std::string>> seen_;
  std::vector<PlannableCall> calls_;
};

}  // namespace

Policy apply_plan(nn::Module& net, const PrecisionPlan& plan) {
  check_plan(plan);
  check_modules(net, plan);
  RowsByModule rows = by_module(plan);
  const std::shared_ptr<const EightBits> eight = eight_bits_of(plan);
  Policy rest = plan.policy();
  rest.eight_bits = eight;
  const auto own = rows.find("");
  if (own != rows.end()) {
    set_policy(net, policy_of_rows(own->second, eight), has_exact_row(own->second));
  } else if (rest.level == Level::kO0) {
    set_policy(net, {.level = Level::kO3, .lower = DType::kF32, .eight_bits = eight});
  } else {
    set_policy(net, rest);
  }
  for (const auto& [path, of_module] : rows) {
    if (path.empty()) continue;
    set_part_policy(net, *net.find(path), policy_of_rows(of_module, eight),
                    has_exact_row(of_module));
  }
  return rest;
}

bool is_plannable(const OpDef& op, Inputs inputs) {
  if (nn::current_module() == nullptr || op.view != nullptr) return false;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const bool counts = inputs[i]->defined() && op.precision.may_cast(i);
    if (counts && takes_part(inputs[i]->dtype())) return true;
  }
  return false;
}

std::vector<PlannableCall> plannable_calls(const std::function<void()>& forward) {
  const NoGrad no_grad;
  CollectCalls collector;
  const ObserveCalls observing(collector);
  forward();
  return collector.take();
}

void check_plan_fits(nn::Module& net, const PrecisionPlan& plan, const Tensor& input) {
  check_modules(net, plan);
  const nn::Inference inference(net);
  check_plan_fits(net, plan, plannable_calls([&] { static_cast<void>(net(input)); }));
}

void check_plan_fits(nn::Module& net, const PrecisionPlan& plan,
                     std::span<const PlannableCall> calls) {
  check_modules(net, plan);
  for (const PlannableCall& call : calls) {
    const PlanRow wanted{.module = call.module, .op = call.op};
    check_arg(plan.find(call.module, call.op) != nullptr, kPlanOp,
              "the plan is for another network: this one calls `", wanted.text(),
              "`, for which the plan has no row", kRemake);
  }
}

}  // namespace mezzo::amp
