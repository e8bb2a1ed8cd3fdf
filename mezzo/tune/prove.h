// Proofs of plans: training steps of several settings, in turns, from the same weights.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "mezzo/amp/batch.h"
#include "mezzo/amp/precision_plan.h"
#include "mezzo/amp/train_step.h"
#include "mezzo/tune/gradient_error.h"

namespace mezzo::tune {

// A level or a plan, and what steps under it take and give.
struct ProvedSetting {
  std::string name{};  // `O2/bf16`, `plan`
  bool is_plan = false;
  amp::PrecisionPlan plan{};  // what each operation computes in; of a level, too
  GradientError error{};
  double predicted_error = 0;  // from those of single operations
  double predicted_ms = 0;     // of the kernels of operations, and casts
  double ms = 0;               // the median of the timed steps
  std::int64_t peak_bytes = 0;
  std::vector<double> losses{};  // of the first round's steps
  std::int64_t skipped = 0;      // of those
  bool is_within = false;        // the budgets
  bool is_best = false;          // no other setting is at least as fast and as exact: Pareto front
};

struct ProofOptions {
  std::int64_t steps = 6;
  std::int64_t rounds = 2;
  bool graph = false;
  std::function<void(const std::string& what)> on_progress{};
};

// Makes training steps on the batches under each setting, and fills in times, peaks and losses. The
// state of the step is afterwards that from before.
void prove(amp::TrainStep& step, const std::vector<Batch>& batches,
           std::vector<ProvedSetting>& settings, const ProofOptions& options);

// Sets `is_best` of all settings. Those whose gradients are not finite are never best.
void find_pareto_front(std::vector<ProvedSetting>& settings);

}  // namespace mezzo::tune
