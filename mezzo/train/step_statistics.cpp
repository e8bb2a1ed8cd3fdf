#include "mezzo/train/step_statistics.h"

#include <algorithm>
#include <numeric>

#include "mezzo/train/median.h"

namespace mezzo::train {

void StepStatistics::add(const amp::TrainStepResult& report) {
  total_.push_back(report.total_ms());
  forward_.push_back(report.forward_ms);
  backward_.push_back(report.backward_ms);
  update_.push_back(report.update_ms);
  skipped_ += report.skipped ? 1 : 0;
}

void StepStatistics::write(RunResult& result, std::int64_t batch_size) const {
  result.steps = static_cast<std::int64_t>(total_.size());
  result.skipped_steps = skipped_;
  if (total_.empty()) return;
  result.total_ms = std::accumulate(total_.begin(), total_.end(), 0.0);
  result.step_ms_median = median(total_);
  result.step_ms_min = *std::min_element(total_.begin(), total_.end());
  result.step_ms_max = *std::max_element(total_.begin(), total_.end());
  result.forward_ms_median = median(forward_);
  result.backward_ms_median = median(backward_);
  result.update_ms_median = median(update_);
  result.images_per_s = 1000.0 * static_cast<double>(batch_size) / result.step_ms_median;
}

}  // namespace mezzo::train
