// The callbacks of a run that react to its validation, and their reports to the observer.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "mezzo/train/early_stopping.h"
#include "mezzo/train/moving_average.h"
#include "mezzo/train/reduce_lr.h"
#include "mezzo/train/run.h"

namespace mezzo::train {

class RunWatchers final : public Callback {
 public:
  // Creates the callbacks that the options request. Both arguments must outlive it.
  RunWatchers(const RunOptions& options, RunObserver& observer);

  // Appends the callbacks, and then itself, since it comes after all that end a run or set a rate.
  void append_to(std::vector<Callback*>& callbacks);
  void on_train_begin(FitState& state) override;
  void after_epoch(FitState& state) override;

  // Why the run ended early, if it did.
  std::optional<EarlyStop> early_stop() const;
  // While the result exists, the network has the averages, if there are any.
  std::optional<AveragedWeights::InUse> use_average() const;
  // Gives the averages to the network permanently.
  void finish(nn::Module& net) const;

 private:
  RunObserver& observer_;
  std::optional<ExponentialMovingAverage> average_;
  std::optional<ReduceLROnPlateau> plateau_;
  std::optional<EarlyStopping> stopping_;
  std::int64_t epoch_ = 0;  // the last one that ended
  std::int64_t reductions_ = 0;
};

}  // namespace mezzo::train
