// ExponentialMovingAverage: averages the weights during Model::fit().
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "mezzo/train/averaged_weights.h"
#include "mezzo/train/callback.h"

namespace mezzo::train {

// Averages the weights after every step that is not skipped, and lets fit()'s validation use the
// averages. The training continues with its own weights, bit for bit.
//
//   train::ExponentialMovingAverage average({.weights = {.decay = 0.999}});
//   model.fit(10, loader, {.callbacks = {&average, &checkpoints}, .validation = &test});
//   net.load_state(average.state());  // the network has the averages from here on
//
// Checkpoints hold the averages as a group of tensors, `ema`. So does the one in `best`, whose
// metric was computed with them. A training that resumes from a checkpoint without averages starts
// them from that checkpoint's weights. A second fit() of the same network continues the averages of
// the first; that of another network starts anew.
class ExponentialMovingAverage final : public Callback {
 public:
  struct Options {
    AverageOptions weights{};
    // Evaluate the averages, and save them as the weights to be read from checkpoints.
    bool evaluate = true;
  };
  // Throws ArgumentError unless decay is at least 0 and below 1.
  explicit ExponentialMovingAverage(Options options);
  ExponentialMovingAverage() : ExponentialMovingAverage(Options{}) {}

  // Throws ArgumentError if another average is already evaluated, or if the averages of the
  // checkpoint are those of another network.
  void on_train_begin(FitState& state) override;
  void on_step_end(FitState& state) override;
  void on_evaluation_begin(FitState& state) override;
  void on_evaluation_end(FitState& state) override;
  void save(io::Checkpoint& checkpoint) const override;
  void load(const io::Checkpoint& checkpoint) override;

  // Null before the first training.
  const AveragedWeights* average() const { return average_ ? &*average_ : nullptr; }
  // The averages by the names of the network's state(); these are not copies. Throws ArgumentError
  // before the first training.
  std::vector<NamedTensor> state() const;

 private:
  // Averages from a checkpoint, until the network that they belong to is known.
  struct Loaded {
    std::vector<NamedTensor> state{};
    std::int64_t updates = 0;
  };

  std::string group() const;

  Options options_;
  std::optional<AveragedWeights> average_;
  std::optional<Loaded> loaded_;
  std::optional<AveragedWeights::InUse> in_use_;
};

// The weights that were evaluated when the checkpoint was written: averages, if an
// ExponentialMovingAverage had them evaluated, otherwise those of the network. Throws FileError if
// the checkpoint has none.
const std::vector<NamedTensor>& evaluated_weights(const io::Checkpoint& checkpoint);

}  // namespace mezzo::train
