// What mezzo's loss scalers do over a row of steps, for those of the frameworks.
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
  bool refused = false;          // the options are
  std::vector<double> scales{};  // after each step
  std::string taken{};           // T for a step that was taken, S for one that was skipped
};

// Of the scaler that stands for that of a framework, by whose name it is called:
// `torch.amp.GradScaler`. A step has finite gradients (F), infinite ones (I) or NaN (N).
Trajectory trajectory(const std::string& scaler, const ScaleOptions& options,
                      const std::string& steps);
// The options that it has where nothing is said.
ScaleOptions default_options(const std::string& scaler);

}  // namespace mezzo::frameworks
