// Collects the times of many steps into the result of a run.
#pragma once

#include <cstdint>
#include <vector>

#include "mezzo/train/run.h"

namespace mezzo::train {

class StepStatistics {
 public:
  void add(const amp::TrainStepResult& report);
  // Writes the steps, skipped steps and times that were added; a step is a batch of that size.
  // Median, minimum and maximum are over the steps that had a backward pass, unless none had one.
  void write(RunResult& result, std::int64_t batch_size) const;

 private:
  struct Times {
    std::vector<double> total, forward, backward, update;
    void add(const amp::TrainStepResult& report);
  };

  Times whole_;  // steps with a backward pass
  Times cut_;    // steps whose loss was not finite, so without a backward pass
  std::int64_t skipped_ = 0;
};

}  // namespace mezzo::train
