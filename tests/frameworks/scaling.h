// The behaviour of mezzo's loss scalers over a sequence of steps, compared with the frameworks'.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace mezzo::frameworks {

// The options of a scaler, in the order of the data files.
struct ScaleOptions {
  double init;
  double growth;
  double backoff;
  double interval;
};

struct Trajectory {
  bool refused = false;          // whether the options were refused
  std::vector<double> scales{};  // after each step
  std::string taken{};           // T for a step that was taken, S for a skipped one
};

// Runs the scaler that corresponds to a framework's scaler, which `scaler` names:
// `torch.amp.GradScaler`. A step has finite gradients (F), infinite ones (I) or NaN (N).
Trajectory trajectory(const std::string& scaler, const ScaleOptions& options,
                      const std::string& steps);
// The scaler's default options.
ScaleOptions default_options(const std::string& scaler);

}  // namespace mezzo::frameworks
