// Finds the precision plan of a network: what each operation costs and spoils in each dtype is
// measured on this machine, and the best mix within a budget of error is computed and proved.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "mezzo/amp/batch.h"
#include "mezzo/amp/precision_plan.h"
#include "mezzo/amp/train_step.h"
#include "mezzo/tune/choice.h"
#include "mezzo/tune/gradient_error.h"
#include "mezzo/tune/measure.h"
#include "mezzo/tune/prober.h"
#include "mezzo/tune/prove.h"
#include "mezzo/tune/solve.h"
#include "mezzo/tune/step_calls.h"

namespace mezzo::tune {

struct TuneOptions {
  // The dtypes that operations may have. f32 is always among them.
  std::vector<DType> candidates{DType::kF32, DType::kBf16, DType::kF16};
  Scaling scaling = Scaling::kCurrent;  // of e4m3, if it is a candidate
  Objective objective = Objective::kTime;
  // How large the error of the gradients may be: GradientError::total. Unset: that of level auto in
  // the first 16-bit candidate whose gradients are finite there.
  std::optional<double> error_budget{};
  // How many bytes a step may take at its peak. Unset: any.
  std::optional<std::int64_t> memory_budget{};
  // The number of examples of each batch on which errors are measured, from its beginning; 0: as
  // many as make the measurement about as long as some hundred steps of a small network.
  std::int64_t error_examples = 0;
  std::int64_t error_batches = 2;  // the number of batches for errors, at most as many as are given
  // Whether training steps are captured: graph::captured(). The plans are proved in that mode.
  bool graph = false;
  std::int64_t proof_steps = 6;   // timed steps of each setting in a round
  std::int64_t proof_rounds = 2;  // in turns
  // Gradients that are more exact than f32's, such as of the network in f64; null: f32 by direct
  // sums.
  ExactStep exact{};
  std::string exact_name = "f32 by direct sums";
  // For the plan's heading.
  std::string model{};
  // Told what is done next: `measuring errors, 12 of 80`.
  std::function<void(const std::string& what)> on_progress{};
};

struct TuneResult {
  amp::PrecisionPlan plan{};
  std::vector<MeasuredOperation> operations{};
  std::vector<ProvedSetting> settings{};  // the levels, and plans, one of which is `plan`
  std::size_t chosen = 0;                 // of `settings`
  double error_budget = 0;
  std::string budget_from{};        // `auto/bf16`, or `given`
  std::string exact{};              // what gradients are compared with: TuneOptions::exact_name
  std::int64_t error_examples = 0;  // of each batch
  std::size_t error_batches = 0;
  std::vector<std::string> noise{};  // Prober::noise()
  std::size_t parameters = 0;        // of which that many are noise
  double seconds = 0;
};

}  // namespace mezzo::tune

namespace mezzo::amp {

// Tunes the network of a step on batches, which are on the step's device. Weights, the optimizer's
// state, buffers and random numbers are afterwards those from before, and the network computes by
// the plan. Throws ArgumentError for no batches, no 16-bit candidate, and a budget that no plan
// keeps: the message says how small it can be. The network has no setting of its precision then.
tune::TuneResult tune(TrainStep& step, const std::vector<Batch>& batches,
                      const tune::TuneOptions& options = {});

}  // namespace mezzo::amp
