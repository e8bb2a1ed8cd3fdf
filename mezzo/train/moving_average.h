// ExponentialMovingAverage: averaged weights while Model::fit() trains.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "mezzo/train/averaged_weights.h"
#include "mezzo/train/callback.h"

namespace mezzo::train {

// Averages the weights after every step that is not skipped, and has fit()'s validation use the
// averages; the training goes on with its own weights, bit for bit.
//
//   train::ExponentialMovingAverage average({.weights = {.decay = 0.999}});
//   model.fit(10, loader, {.callbacks = {&average, &checkpoints}, .validation = &test});
//   net.load_state(average.state());  // the network has the averages from here on
//
// Checkpoints hold the averages as a group of tensors, `ema`, also the one in `best`, whose metric
// is theirs. A training that goes on from one without them begins with the weights of there. A
// second fit() of the same network goes on with the averages of the first, of another one it begins
// anew.
class ExponentialMovingAverage final : public Callback {
 public:
  struct Options {
    AverageOptions weights{};
    // Metrics are those of the averages, and so are weights that are read from a checkpoint.
    bool evaluate = true;
  };
  // Throws ArgumentError unless decay is at least 0 and below 1.
  explicit ExponentialMovingAverage(Options options);
  ExponentialMovingAverage() : ExponentialMovingAverage(Options{}) {}

  // Throws ArgumentError if another average is evaluated already, or if the averages of the
  // checkpoint are those of another network.
  void on_train_begin(FitState& state) override;
  void on_step_end(FitState& state) override;
  void on_evaluation_begin(FitState& state) override;
  void on_evaluation_end(FitState& state) override;
  void save(io::Checkpoint& checkpoint) const override;
  void load(const io::Checkpoint& checkpoint) override;

  // Null before the first training.
  const AveragedWeights* average() const { return average_ ? &*average_ : nullptr; }
  // The averages by the names of the network's state(): not copies. Throws ArgumentError before the
  // first training.
  std::vector<NamedTensor> state() const;

 private:
  // Of a checkpoint, until it is known which network they are of.
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
// ExponentialMovingAverage had them evaluated, else those of the network. Throws FileError if it
// has none.
const std::vector<NamedTensor>& evaluated_weights(const io::Checkpoint& checkpoint);

}  // namespace mezzo::train
