// A metric of the validation that a callback acts by.
#pragma once

#include <optional>
#include <string>

#include "mezzo/train/callback.h"

namespace mezzo::train {

struct Monitored {
  std::string name{};                 // as ModelOptions::metrics may name it
  std::optional<bool> prefers_low{};  // the metric's own answer if nothing is said

  // Throws ArgumentError, that begins with `op`, if there is no validation, or no such metric.
  void check(const FitState& state, const char* op) const;
  // Settles both by the model's metric. Throws like check().
  void settle(const FitState& state, const char* op);
  // Of the last evaluation.
  double value(const FitState& state) const { return state.metrics.at(name); }
};

}  // namespace mezzo::train
