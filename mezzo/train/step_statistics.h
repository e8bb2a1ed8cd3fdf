// Times of many steps, gathered into the result of a run.
#pragma once

#include <cstdint>
#include <vector>

#include "mezzo/train/run.h"

namespace mezzo::train {

class StepStatistics {
 public:
  void add(const amp::TrainStepResult& report);
  // Steps, skipped steps and times of what was added; a step is a batch of that size. Medians,
  // least and most are those of the steps that had a backward pass, unless none had one.
  void write(RunResult& result, std::int64_t batch_size) const;

 private:
  struct Times {
    std::vector<double> total, forward, backward, update;
    void add(const amp::TrainStepResult& report);
  };

  Times whole_;  // steps with a backward pass
  Times cut_;    // a loss that is not finite ends a step before that
  std::int64_t skipped_ = 0;
};

}  // namespace mezzo::train
