// The trajectory of a loss scale over a sequence of steps.
#pragma once

#include <string>
#include <vector>

#include "mezzo/amp/loss_scale.h"

namespace mezzo::amp {

using Scales = std::vector<double>;

// The scale after each step; `F` is a finite step, `O` an overflow.
inline Scales trajectory(LossScaleState& state, const std::string& steps) {
  Scales scales;
  for (const char step : steps) {
    state.update(step == 'O');
    scales.push_back(state.scale());
  }
  return scales;
}

inline Scales trajectory(const LossScaleOptions& options, const std::string& steps) {
  LossScaleState state(options);
  return trajectory(state, steps);
}

}  // namespace mezzo::amp
