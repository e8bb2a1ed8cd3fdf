// Reports a run to its observer, and gathers its result.
#pragma once

#include <chrono>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "mezzo/data/dataset.h"
#include "mezzo/train/callback.h"
#include "mezzo/train/model.h"
#include "mezzo/train/optimizer_of.h"
#include "mezzo/train/run.h"
#include "mezzo/train/schedule.h"
#include "mezzo/train/step_statistics.h"

namespace mezzo::train {

// Reports fit()'s events to the observer, sets the learning rates, and gathers the result.
class RunReporter final : public Callback {
 public:
  // `images` are the training images; null for tokens. All arguments must outlive the reporter.
  RunReporter(const RunOptions& options, const Schedule& schedule,
              const GroupedOptimizer& optimizer, const data::Dataset* images, RunObserver& observer)
      : options_(options),
        schedule_(schedule),
        optimizer_(optimizer),
        images_(images),
        observer_(observer) {}

  void on_train_begin(FitState& state) override;
  void on_epoch_begin(FitState& state) override;
  void on_step_begin(FitState& state) override;
  void on_step_end(FitState& state) override;
  void on_step_evaluated(FitState& state) override;
  void on_epoch_end(FitState& state) override;
  void save(io::Checkpoint& checkpoint) const override;
  void load(const io::Checkpoint& checkpoint) override;

  RunResult result(const FitResult& fit) const;
  // False if the run had nothing left to do, or was stopped in the middle of an epoch.
  bool has_stepped() const { return steps_ > 0; }
  bool has_evaluated() const { return test_.has_value(); }

  static Evaluation evaluation_of(const std::map<std::string, double>& metrics);

 private:
  // The tokens of a step, over all processes; 0 for images.
  std::int64_t tokens_of_step() const;

  // The mean over the steps of an epoch.
  struct MeanOfSteps {
    double value = 0;
    std::int64_t steps = 0;

    // NaN without steps.
    double mean() const { return steps > 0 ? value : std::nan(""); }
    void add(double loss) { value += (loss - value) / static_cast<double>(++steps); }
  };

  const RunOptions& options_;
  const Schedule& schedule_;
  const GroupedOptimizer& optimizer_;
  const data::Dataset* images_;
  RunObserver& observer_;
  StepStatistics statistics_;
  MeanOfSteps mean_loss_;
  std::optional<Evaluation> test_{};  // of the last epoch that ended
  std::int64_t steps_ = 0;            // in this part of the run
  double waited_ms_ = 0;              // for the batches of these steps
  std::int64_t peak_bytes_ = 0;
  std::chrono::steady_clock::time_point start_{};  // of the epoch
  std::int64_t epoch_steps_ = 0;                   // in this part of the run and the epoch
  double epoch_ms_ = 0;                            // of these, with waiting
};

}  // namespace mezzo::train
