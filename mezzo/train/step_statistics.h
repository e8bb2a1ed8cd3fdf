// Times of many steps, gathered into the result of a run.
#pragma once

#include <cstdint>
#include <vector>

#include "mezzo/train/run.h"

namespace mezzo::train {

class StepStatistics {
 public:
  void add(const amp::TrainStepResult& report);
  // Steps, skipped steps and times of what was added; a step is a batch of that size.
  void write(RunResult& result, std::int64_t batch_size) const;

 private:
  std::vector<double> total_;
  std::vector<double> forward_;
  std::vector<double> backward_;
  std::vector<double> update_;
  std::int64_t skipped_ = 0;
};

}  // namespace mezzo::train
