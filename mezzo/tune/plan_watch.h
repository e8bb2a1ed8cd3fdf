// The watch of a precision plan: sees when the numbers of a training leave the ranges that the plan
// was made for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "mezzo/amp/precision_plan.h"
#include "mezzo/amp/step_observer.h"

namespace mezzo::tune {

// Why an operation of the plan has to be widened.
struct RangeFinding {
  std::string module{};
  std::string op{};
  std::string reason{};  // `at step 300 2.4 % of its results were too small for f16, and ...`
};

// Looks, in every so many steps and after a skipped one, at the results of the forward calls for
// which the plan has f16. An operation has left its range if results are infinite or NaN though
// nothing that it was given was, or if of the results other than zero a share is below the smallest
// normal number that is more than a hundredth above the row's share: PlanRow::lost. Operations in
// bf16 are not looked at: they have the range of f32, so f32 would not help.
//
// The watch changes nothing itself: whoever trains takes the findings between steps, widens the
// operations by widened(), and hands over the new plan. Steps at which it does not look cost
// nothing. Eager and captured steps are looked at alike.
class PlanWatch final : public amp::StepObserver {
 public:
  // Throws ArgumentError unless every >= 1.
  PlanWatch(const amp::PrecisionPlan& plan, std::int64_t every);

  // The plan that the network computes by from now on.
  void set_plan(const amp::PrecisionPlan& plan);
  // The number of steps that were done before those that are watched, by an earlier part of the
  // run, and whether the last of them was skipped.
  void set_steps_before(std::int64_t steps, bool last_was_skipped);

  // What the steps since the last call have shown, in the order of the plan's rows.
  std::vector<RangeFinding> take_findings();
  // The plan with the shares that the last look has counted: PlanRow::lost and overflowed of the
  // rows in f16. For whoever makes a plan.
  amp::PrecisionPlan with_shares(amp::PrecisionPlan plan) const;
  // Whether the last step was looked at.
  bool has_looked() const { return has_looked_; }
  // The number of steps that were looked at.
  std::int64_t looks() const { return looks_; }

  bool begin_step(double scale) override;
  // A loss that is not finite comes from this very batch: it is looked at once more.
  bool begin_replay(const amp::TrainStepResult& result, const Batch& batch) override;
  void on_call(const amp::ObservedStepCall& call) override;
  void end_calls() override;

 private:
  // What was counted of a row in a step.
  struct Counts {
    std::int64_t elements = 0;
    std::int64_t too_large = 0;  // infinite or NaN, from finite inputs
    std::int64_t nonzero = 0;    // finite ones
    std::int64_t too_small = 0;  // of these
  };

  void begin_look();
  std::vector<std::size_t> rows_shown_by(const amp::ObservedStepCall& call,
                                         std::size_t output) const;
  void look_at(const amp::ObservedStepCall& call, std::size_t output);
  void note_cast(const amp::ObservedStepCall& call);
  bool has_bad_inputs(const amp::ObservedStepCall& call) const;
  std::string reason_of(const amp::PlanRow& row, const Counts& counts) const;

  std::int64_t every_;
  std::vector<amp::PlanRow> rows_;  // those in f16
  std::map<std::pair<std::string, std::string>, std::size_t> index_of_;
  std::vector<Counts> counts_;          // of each of the rows
  std::set<const Storage*> overflown_;  // results of casts whose inputs were finite
  std::vector<RangeFinding> findings_;
  std::int64_t step_ = 0;
  std::int64_t looks_ = 0;
  bool looks_next_ = false;
  bool has_looked_ = false;  // at the current or last step
};

// The plan with the operation in f32, for that reason. Throws ArgumentError if it has no such row.
amp::PrecisionPlan widened(amp::PrecisionPlan plan, const RangeFinding& finding);

}  // namespace mezzo::tune
