// A metric of the validation to which a callback reacts.
#pragma once

#include <optional>
#include <string>

#include "mezzo/train/callback.h"

namespace mezzo::train {

struct Monitored {
  std::string name{};                 // any name that ModelOptions::metrics accepts
  std::optional<bool> prefers_low{};  // if unset, the metric decides

  // Throws ArgumentError beginning with `op` if there is no validation or no such metric.
  void check(const FitState& state, const char* op) const;
  // Fills in both fields from the model's metric. Throws like check().
  void settle(const FitState& state, const char* op);
  // The value in the last evaluation.
  double value(const FitState& state) const { return state.metrics.at(name); }
};

}  // namespace mezzo::train
