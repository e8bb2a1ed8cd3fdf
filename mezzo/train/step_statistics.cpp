#include "mezzo/train/step_statistics.h"

#include <algorithm>
#include <numeric>

#include "mezzo/train/median.h"

namespace mezzo::train {

void StepStatistics::Times::add(const amp::TrainStepResult& report) {
  total.push_back(report.total_ms());
  forward.push_back(report.forward_ms);
  backward.push_back(report.backward_ms);
  update.push_back(report.update_ms);
}

void StepStatistics::add(const amp::TrainStepResult& report) {
  (report.nonfinite_loss && report.skipped ? cut_ : whole_).add(report);
  skipped_ += report.skipped ? 1 : 0;
}

void StepStatistics::write(RunResult& result, std::int64_t batch_size) const {
  result.steps = static_cast<std::int64_t>(whole_.total.size() + cut_.total.size());
  result.skipped_steps = skipped_;
  if (result.steps == 0) return;
  result.total_ms = std::accumulate(whole_.total.begin(), whole_.total.end(), 0.0);
  result.total_ms += std::accumulate(cut_.total.begin(), cut_.total.end(), 0.0);
  const Times& times = whole_.total.empty() ? cut_ : whole_;
  result.step_ms_median = median(times.total);
  result.step_ms_min = *std::min_element(times.total.begin(), times.total.end());
  result.step_ms_max = *std::max_element(times.total.begin(), times.total.end());
  result.forward_ms_median = median(times.forward);
  result.backward_ms_median = median(times.backward);
  result.update_ms_median = median(times.update);
  result.images_per_s = 1000.0 * static_cast<double>(batch_size) / result.step_ms_median;
}

}  // namespace mezzo::train
