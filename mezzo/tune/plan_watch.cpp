#include "mezzo/tune/plan_watch.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "mezzo/amp/train_step.h"
#include "mezzo/core/error.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/dispatcher/op.h"
#include "mezzo/ops/update/multi_tensor.h"

namespace mezzo::tune {
namespace {

// How much larger the share of too small results may be than when the plan was made.
constexpr double kMoreLost = 0.01;

bool can_be_counted(const Tensor& tensor) {
  return tensor.defined() && is_trainable(tensor.dtype()) && tensor.numel() > 0 &&
         tensor.storage()->is_materialized();
}

ExponentCounts counts_of(const Tensor& tensor) {
  const Tensor block = tensor.is_one_block() ? tensor : contiguous(tensor);
  return count_exponents({&block, 1}).front();
}

bool is_finite(const Tensor& tensor) { return counts_of(tensor).all_finite(); }

bool is_cast(const amp::ObservedStepCall& call) {
  return call.op.name == std::string_view("cast") && call.inputs[0]->defined();
}

double part_of(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

// `2.4 %`, `100 %`, and for small shares as many digits as show them.
std::string percent_text(double share) {
  constexpr double kTwoDigits = 0.1;
  char text[32];
  std::snprintf(text, sizeof(text), share < kTwoDigits ? "%.2g %%" : "%.0f %%", 100 * share);
  return text;
}

}  // namespace

PlanWatch::PlanWatch(const amp::PrecisionPlan& plan, std::int64_t every) : every_(every) {
  check_arg(every_ >= 1, "plan_watch",
            "the number of steps between looks must be at least 1: ", every_);
  set_plan(plan);
}

void PlanWatch::set_plan(const amp::PrecisionPlan& plan) {
  rows_.clear();
  index_of_.clear();
  findings_.clear();
  for (const amp::PlanRow& row : plan.rows) {
    if (!is_lower(row.dtype) || !has_narrow_range(row.dtype)) continue;
    index_of_.emplace(std::pair(row.module, row.op), rows_.size());
    rows_.push_back(row);
  }
}

void PlanWatch::set_steps_before(std::int64_t steps, bool last_was_skipped) {
  step_ = steps;
  looks_next_ = last_was_skipped;
}

std::vector<RangeFinding> PlanWatch::take_findings() { return std::exchange(findings_, {}); }

bool PlanWatch::begin_step(double /*scale*/) {
  const bool is_due = ++step_ % every_ == 0 || looks_next_;
  has_looked_ = is_due && !rows_.empty();
  looks_next_ = false;
  if (has_looked_) begin_look();
  return has_looked_;
}

bool PlanWatch::begin_replay(const amp::TrainStepResult& result, const Batch& /*batch*/) {
  looks_next_ = true;
  if (!result.nonfinite_loss || has_looked_ || rows_.empty()) return false;
  has_looked_ = true;
  begin_look();
  return true;
}

amp::PrecisionPlan PlanWatch::with_shares(amp::PrecisionPlan plan) const {
  for (amp::PlanRow& row : plan.rows) {
    const auto found = index_of_.find(std::pair(row.module, row.op));
    if (found == index_of_.end() || counts_.empty()) continue;
    const Counts& counts = counts_[found->second];
    row.overflowed = part_of(counts.too_large, counts.elements);
    row.lost = part_of(counts.too_small, counts.nonzero);
  }
  return plan;
}

// A step that failed may have left counts.
void PlanWatch::begin_look() {
  counts_.assign(rows_.size(), {});
  overflown_.clear();
  ++looks_;
}

// An infinity that a cast has made of an operation's input is the operation's: it wanted f16.
void PlanWatch::note_cast(const amp::ObservedStepCall& call) {
  const Tensor& result = call.outputs[0];
  if (!has_narrow_range(result.dtype()) || !can_be_counted(result)) return;
  const Tensor& input = *call.inputs[0];
  if (is_finite(result) || (can_be_counted(input) && !is_finite(input))) return;
  overflown_.insert(result.storage().get());
}

bool PlanWatch::has_bad_inputs(const amp::ObservedStepCall& call) const {
  return std::ranges::any_of(call.inputs, [&](const Tensor* input) {
    return can_be_counted(*input) && !overflown_.contains(input->storage().get()) &&
           !is_finite(*input);
  });
}

// A kernel that does the work of several calls has results of each.
void PlanWatch::on_call(const amp::ObservedStepCall& call) {
  if (call.op.view != nullptr) return;
  for (std::size_t i = 0; i < call.outputs.size(); ++i) {
    if (call.outputs[i].defined()) look_at(call, i);
  }
  // Memory is used again.
  for (const Tensor& output : call.outputs) {
    if (output.defined()) overflown_.erase(output.storage().get());
  }
  if (is_cast(call)) note_cast(call);
}

// The calls whose results that output shows: its own, after those that the kernel does on the way
// to it, of which nothing is in memory.
std::vector<std::size_t> PlanWatch::rows_shown_by(const amp::ObservedStepCall& call,
                                                  std::size_t output) const {
  std::vector<std::size_t> rows;
  const DType dtype = call.outputs[output].dtype();
  const auto add = [&](const CallId& id) {
    const auto found = index_of_.find(std::pair(id.path, id.op));
    // The loss may call the same operation outside of the network, in f32.
    const bool counts = !id.is_backward() && found != index_of_.end();
    if (counts && rows_[found->second].dtype == dtype) rows.push_back(found->second);
  };
  if (output == 0) std::ranges::for_each(call.joined, add);
  if (call.results[output].output == 0) add(call.results[output].call);
  return rows;
}

void PlanWatch::look_at(const amp::ObservedStepCall& call, std::size_t output) {
  const Tensor& result = call.outputs[output];
  if (!can_be_counted(result)) return;
  const std::vector<std::size_t> rows = rows_shown_by(call, output);
  if (rows.empty()) return;
  const ExponentCounts exponents = counts_of(result);
  for (const std::size_t row : rows) {
    Counts& counts = counts_[row];
    counts.elements += exponents.total();
    counts.nonzero += exponents.finite_nonzero();
    counts.too_small += exponents.rounded_to(result.dtype()).to_subnormal;
  }
  // Of several calls, what the first one has spoiled the others only pass on.
  if (!exponents.all_finite() && !has_bad_inputs(call)) {
    counts_[rows.front()].too_large += exponents.infinities() + exponents.nans();
  }
}

std::string PlanWatch::reason_of(const amp::PlanRow& row, const Counts& counts) const {
  const auto say = [&](double now, const char* what, double before) {
    return concat("at step ", step_, " ", percent_text(now), " of its results were ", what, " for ",
                  row.dtype, ", and ", before > 0 ? percent_text(before) : "none",
                  " when the plan was made");
  };
  const double large = part_of(counts.too_large, counts.elements);
  if (large > row.overflowed) return say(large, "too large", row.overflowed);
  const double small = part_of(counts.too_small, counts.nonzero);
  return small > row.lost + kMoreLost ? say(small, "too small", row.lost) : std::string();
}

void PlanWatch::end_calls() {
  findings_.clear();
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    std::string reason = reason_of(rows_[i], counts_[i]);
    if (reason.empty()) continue;
    findings_.push_back(
        {.module = rows_[i].module, .op = rows_[i].op, .reason = std::move(reason)});
  }
}

amp::PrecisionPlan widened(amp::PrecisionPlan plan, const RangeFinding& finding) {
  const auto found = std::ranges::find_if(plan.rows, [&](const amp::PlanRow& row) {
    return row.module == finding.module && row.op == finding.op;
  });
  check_arg(found != plan.rows.end(), "plan_watch", "the plan has no row for `", finding.op,
            "` of `", finding.module, "`");
  found->dtype = DType::kF32;
  found->reason = finding.reason;
  return plan;
}

}  // namespace mezzo::tune
