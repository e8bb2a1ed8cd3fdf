// PrecisionPlan: the dtype of every operation of a network, row by row.
//
// A level decides by rules that hold for every network. A plan says it for one network, and for
// each operation of each of its modules: `mezzo tune` makes one from measurements
// (tune/tune.h), and people may write or change one (docs/tune.md).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "mezzo/amp/policy.h"
#include "mezzo/nn/module.h"
#include "mezzo/ops/scaling_recipe.h"

namespace mezzo::amp {

// An operation of a module: all calls of that operation in the module's forward pass.
struct PlanRow {
  std::string module{};  // its path; empty for the network itself
  std::string op{};
  // To which its floating-point inputs are cast. e4m3: a product in eight bits, beside bf16.
  DType dtype = DType::kF32;
  bool exact = false;    // convolutions are computed by direct sums: ops/exact_sums.h
  std::string reason{};  // for people
  // The share of the results' elements that were too large for the dtype, and of those other than
  // 0 that were too small, when the plan was made.
  double overflowed = 0;
  double lost = 0;

  // `layer1.0.conv1: conv2d`.
  std::string text() const { return module.empty() ? op : module + ": " + op; }
};

struct PrecisionPlan {
  // What the plan was made for; only for people, and for warnings.
  std::string model{};
  std::string machine{};                // cpu_name()
  std::int64_t threads = 0;             // 0: not known
  std::string batch{};                  // `128 of 3x32x32`
  double step_ms = 0;                   // 0: not known
  double error = 0;                     // of the gradients, as tune::GradientError::total
  double error_budget = 0;              // 0: none
  Scaling scaling = Scaling::kCurrent;  // of rows in e4m3
  std::vector<PlanRow> rows{};

  // The row of an operation; null if there is none.
  const PlanRow* find(std::string_view module, std::string_view op) const;
  bool has(DType dtype) const;
  std::int64_t count(DType dtype) const;
  // The policy of calls that have no row: level auto with the plan's 16-bit dtype, f16 if it has
  // both; O0 if it has none. e4m3 counts as bf16.
  Policy policy() const;
};

// Throws ArgumentError, which names the row, unless the plan can be obeyed by some network: every
// operation exists and is not refused in its dtype, no row stands there twice, only products are in
// e4m3, and the rows of a module have at most one 16-bit dtype, since a module's calls share one
// region.
void check_plan(const PrecisionPlan& plan);

// From now on the network computes as the plan says whenever it is called, eagerly and captured,
// and returns f32 results. Replaces the effect of an earlier plan and of auto_mixed_precision().
// Settings made directly on modules that the plan does not name stay. Returns plan.policy(), for
// steps that take one. Throws what check_plan() throws, and ArgumentError for a module that the
// network does not have; nothing has changed then.
Policy apply_plan(nn::Module& net, const PrecisionPlan& plan);

// Whether a plan can have a row for a call that this thread makes: one within a module, of an
// operation that is no view, with a floating-point input that may be cast.
bool is_plannable(const OpDef& op, Inputs inputs);

// An operation that a network calls and a plan can have a row for: is_plannable().
struct PlannableCall {
  std::string module{};
  std::string op{};

  bool operator==(const PlannableCall&) const = default;
};

// Those that `forward` calls within modules, each once, in the order of their first calls. Runs
// forward() on this thread, without recording.
std::vector<PlannableCall> plannable_calls(const std::function<void()>& forward);

// Throws ArgumentError, which names the first difference, unless the plan has a row for everything
// that the network calls for that input, which is run in inference mode, and names only modules
// that the network has.
void check_plan_fits(nn::Module& net, const PrecisionPlan& plan, const Tensor& input);
// The same, if what the network calls is known.
void check_plan_fits(nn::Module& net, const PrecisionPlan& plan,
                     std::span<const PlannableCall> calls);

}  // namespace mezzo::amp
