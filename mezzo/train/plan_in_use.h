// The precision plan of a run: watched, widened where its numbers leave their range, and kept in
// checkpoints.
#pragma once

#include "mezzo/amp/precision_plan.h"
#include "mezzo/train/callback.h"
#include "mezzo/train/run.h"
#include "mezzo/train/trainer.h"

namespace mezzo::train {

class PlanInUse final : public Callback {
 public:
  // For a run with a plan, which the trainer's network already computes by. All arguments must
  // outlive it.
  PlanInUse(Trainer& trainer, const RunOptions& options, RunObserver& observer);

  const amp::PrecisionPlan& plan() const { return plan_; }

  void on_train_begin(FitState& state) override;
  // Between two steps: takes the findings of the watch, and widens those operations. Processes that
  // train together widen what any of them has found.
  void on_step_end(FitState& state) override;
  void save(io::Checkpoint& checkpoint) const override;
  void load(const io::Checkpoint& checkpoint) override;

 private:
  void use(amp::PrecisionPlan plan);

  Trainer& trainer_;
  const RunOptions& options_;
  RunObserver& observer_;
  amp::PrecisionPlan plan_;
};

}  // namespace mezzo::train
