// Measures what the operations of a step cost and spoil in each dtype.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "mezzo/amp/batch.h"
#include "mezzo/amp/train_step.h"
#include "mezzo/tune/cast_times.h"
#include "mezzo/tune/choice.h"
#include "mezzo/tune/gradient_error.h"
#include "mezzo/tune/prober.h"
#include "mezzo/tune/solve.h"
#include "mezzo/tune/step_calls.h"

namespace mezzo::tune {

// An operation in one dtype, alone: all others are in f32.
struct MeasuredChoice {
  Choice choice{};
  GradientError error{};
  double ms = 0;       // of its kernels, forward and backward
  double cast_ms = 0;  // of the casts of what is f32 in any case: the batch, parameters, the loss
  double bytes = 0;    // of its results

  // The square of what it adds to the error; infinite if a gradient is not finite.
  double error_squared() const;
};

struct MeasuredOperation {
  StepOperation operation{};
  std::vector<MeasuredChoice> choices{};  // f32 first
  std::size_t chosen = 0;                 // of `choices`
  std::string reason{};

  const MeasuredChoice& choice() const { return choices[chosen]; }
  // Null if it does not have that choice.
  const MeasuredChoice* find(const Choice& choice) const;
};

// Two operations of which one reads a result of the other.
struct MeasuredEdge {
  StepEdge edge{};
  // For each candidate but f32: by how much the square of the error is smaller if both operations
  // are in it than if the squares of their errors were added. What the maker has rounded, the
  // reader need not round again.
  std::vector<double> shared{};
};

struct Measurements {
  std::vector<DType> lower{};           // the candidates besides f32
  Scaling scaling = Scaling::kCurrent;  // of e4m3, if it is among them
  std::vector<Choice> labels{};         // every choice that some operation may have
  StepCalls calls{};
  std::vector<MeasuredOperation> operations{};
  std::vector<MeasuredEdge> edges{};
  GradientError base{};       // of everything in f32, as exact as it can be
  std::int64_t f32_peak = 0;  // bytes of memory that a forward and a backward pass take in f32
};

using TellProgress = std::function<void(const std::string& what)>;

// Collects the operations of a step. `flops`: receives the multiplications and additions that it
// takes.
Measurements collect_operations(amp::TrainStep& step, const Batch& batch,
                                const std::vector<DType>& lower, Scaling scaling, double& flops);

// How many passes measure_errors() makes for each batch.
std::int64_t passes_for_errors(const Measurements& measurements);
// Measures what each choice of each operation adds to the error, and what neighbours share of it.
// Throws ArgumentError if gradients are not finite in f32 already.
void measure_errors(Measurements& measurements, Prober& prober, const TellProgress& tell);

// Measures the times of operations and casts.
void measure_times(Measurements& measurements, amp::TrainStep& step, const Batch& batch,
                   CastTimes& casts, const TellProgress& tell);

// The problem that a plan solves; its labels are those of the measurements.
SolveProblem problem_of(const Measurements& measurements, CastTimes& casts);
// The labels of choices, as indices.
std::vector<std::size_t> labels_of(const Measurements& measurements,
                                   const std::vector<Choice>& choices);

}  // namespace mezzo::tune
