#include "mezzo/tune/prove.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "mezzo/core/device_backend.h"
#include "mezzo/core/error.h"
#include "mezzo/graph/train_step.h"
#include "mezzo/tune/prober.h"
#include "mezzo/tune/step_state.h"

namespace mezzo::tune {
namespace {

double median_ms(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

// Puts a scaler into a step, and the step's own back at the end.
class ScalerFor {
 public:
  ScalerFor(amp::TrainStep& step, const amp::PrecisionPlan& plan)
      : step_(step), own_(std::move(step.scaler())) {
    // In f32's range gradients do not underflow, and the check for overflows would be timed.
    step_.scaler() = amp::GradScaler({}, plan.has(DType::kF16));
  }
  ~ScalerFor() { step_.scaler() = std::move(own_); }
  ScalerFor(const ScalerFor&) = delete;
  ScalerFor& operator=(const ScalerFor&) = delete;

 private:
  amp::TrainStep& step_;
  amp::GradScaler own_;
};

class Prover {
 public:
  Prover(amp::TrainStep& step, const std::vector<Batch>& batches, const ProofOptions& options)
      : step_(step), batches_(batches), options_(options) {}

  // The steps of one setting in one round.
  void run(ProvedSetting& setting, std::vector<double>& times, bool is_first) {
    StepState before(step_.net(), step_.optimizer());
    set_precision(step_.net(), setting.plan);
    const ScalerFor scaler(step_, setting.plan);
    if (options_.graph) step_.set_execution(graph::captured(step_.net()));
    const Device device = step_.net().device();
    for (std::int64_t i = 0; i < kUntimed + options_.steps; ++i) {
      // The first steps allocate, and capture.
      if (i == kUntimed) reset_peak_memory(device);
      const auto begin = std::chrono::steady_clock::now();
      const amp::TrainStepResult result =
          step_(batches_[static_cast<std::size_t>(i) % batches_.size()]);
      const std::chrono::duration<double, std::milli> took =
          std::chrono::steady_clock::now() - begin;
      if (i >= kUntimed) times.push_back(took.count());
      if (!is_first) continue;
      setting.losses.push_back(result.loss);
      setting.skipped += result.skipped ? 1 : 0;
    }
    if (is_first) setting.peak_bytes = memory_stats(device).peak_bytes;
  }

 private:
  static constexpr std::int64_t kUntimed = 2;

  amp::TrainStep& step_;
  const std::vector<Batch>& batches_;
  const ProofOptions& options_;
};

bool beats(const ProvedSetting& a, const ProvedSetting& b) {
  const bool is_as_good = a.ms <= b.ms && a.error.total <= b.error.total;
  return is_as_good && (a.ms < b.ms || a.error.total < b.error.total);
}

}  // namespace

void prove(amp::TrainStep& step, const std::vector<Batch>& batches,
           std::vector<ProvedSetting>& settings, const ProofOptions& options) {
  Prover prover(step, batches, options);
  std::vector<std::vector<double>> times(settings.size());
  for (std::int64_t round = 0; round < options.rounds; ++round) {
    for (std::size_t i = 0; i < settings.size(); ++i) {
      if (options.on_progress) {
        options.on_progress(
            concat("proving ", settings[i].name, ", round ", round + 1, " of ", options.rounds));
      }
      prover.run(settings[i], times[i], round == 0);
    }
  }
  for (std::size_t i = 0; i < settings.size(); ++i) settings[i].ms = median_ms(times[i]);
}

void find_pareto_front(std::vector<ProvedSetting>& settings) {
  for (ProvedSetting& setting : settings) {
    setting.is_best = setting.error.is_finite() &&
                      std::ranges::none_of(settings, [&](const ProvedSetting& other) {
                        return other.error.is_finite() && beats(other, setting);
                      });
  }
}

}  // namespace mezzo::tune
