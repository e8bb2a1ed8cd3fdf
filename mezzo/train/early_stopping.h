// EarlyStopping: ends Model::fit() when a metric does not get better any more.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "mezzo/core/named_tensor.h"
#include "mezzo/train/monitored.h"

namespace mezzo::train {

// Ends the training after `patience` epochs in a row whose metric is not better than the best one
// before them, as Keras and Lightning do. Epochs that FitOptions::steps cuts short do not count; a
// training that goes on from there evaluates them again.
//
//   train::EarlyStopping stopping({.monitor = "accuracy", .patience = 5, .restore_best = true});
//   model.fit(100, loader, {.callbacks = {&stopping}, .validation = &test});
class EarlyStopping final : public Callback {
 public:
  struct Options {
    std::string monitor = "loss";  // a metric of the validation
    std::int64_t patience = 10;    // epochs, at least 1
    double min_delta = 0;          // what is better by no more than this is not better
    // Whether lower is better, if not what Metric::prefers_low() says.
    std::optional<bool> prefers_low{};
    std::int64_t start_from_epoch = 1;  // epochs before this one, counted from 1, do not count
    // When the training has ended, by whatever, the network gets the weights of the best epoch:
    // those that were evaluated, so averages where these were. The last checkpoint, from which a
    // training may go on, has been written by then.
    bool restore_best = false;
  };
  // Throws ArgumentError unless patience and start_from_epoch are at least 1 and min_delta is
  // finite and not negative.
  explicit EarlyStopping(Options options);
  EarlyStopping() : EarlyStopping(Options{}) {}

  // Throws ArgumentError without a validation, and if there is no such metric.
  void check(FitState& state) override;
  // Begins anew, unless the training goes on from a checkpoint; one that was over ends at once.
  void on_train_begin(FitState& state) override;
  void on_epoch_end(FitState& state) override;
  void after_train(FitState& state) override;
  void save(io::Checkpoint& checkpoint) const override;
  void load(const io::Checkpoint& checkpoint) override;

  bool has_stopped() const { return memory_.waited >= options_.patience; }
  // The best value so far and its epoch, from 1; none before the first that counts.
  std::optional<double> best() const { return memory_.best; }
  std::int64_t best_epoch() const { return memory_.best_epoch; }
  const std::string& monitor() const { return monitored_.name; }

 private:
  struct Memory {
    std::optional<double> best{};
    std::int64_t best_epoch = 0;
    std::int64_t waited = 0;             // epochs since then
    std::vector<NamedTensor> weights{};  // of then, with restore_best
  };

  bool is_better(double value) const;
  std::string group() const;

  Options options_;
  Monitored monitored_;
  Memory memory_;
};

}  // namespace mezzo::train
