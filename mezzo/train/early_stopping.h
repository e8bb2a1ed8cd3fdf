// EarlyStopping: ends Model::fit() when a metric no longer improves.
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
// before, as Keras and Lightning do. Epochs that FitOptions::steps cuts short do not count; a
// training that resumes there evaluates them again.
//
//   train::EarlyStopping stopping({.monitor = "accuracy", .patience = 5, .restore_best = true});
//   model.fit(100, loader, {.callbacks = {&stopping}, .validation = &test});
class EarlyStopping final : public Callback {
 public:
  struct Options {
    std::string monitor = "loss";  // a metric of the validation
    std::int64_t patience = 10;    // epochs, at least 1
    double min_delta = 0;          // an improvement must be larger than this
    // Whether lower is better. If unset, Metric::prefers_low() decides.
    std::optional<bool> prefers_low{};
    std::int64_t start_from_epoch = 1;  // earlier epochs, counted from 1, do not count
    // When the training ends for any reason, give the network the weights of the best epoch: those
    // that were evaluated, so averages if there are any. The last checkpoint, from which a training
    // may resume, has been written by then.
    bool restore_best = false;
  };
  // Throws ArgumentError unless patience and start_from_epoch are at least 1 and min_delta is
  // finite and not negative.
  explicit EarlyStopping(Options options);
  EarlyStopping() : EarlyStopping(Options{}) {}

  // Throws ArgumentError if there is no validation or no such metric.
  void check(FitState& state) override;
  // Starts anew, unless the training resumes from a checkpoint. A training that was already stopped
  // ends at once.
  void on_train_begin(FitState& state) override;
  void on_epoch_end(FitState& state) override;
  void after_train(FitState& state) override;
  void save(io::Checkpoint& checkpoint) const override;
  void load(const io::Checkpoint& checkpoint) override;

  bool has_stopped() const { return memory_.waited >= options_.patience; }
  // The best value so far and its epoch, from 1; empty before the first epoch that counts.
  std::optional<double> best() const { return memory_.best; }
  std::int64_t best_epoch() const { return memory_.best_epoch; }
  const std::string& monitor() const { return monitored_.name; }

 private:
  struct Memory {
    std::optional<double> best{};
    std::int64_t best_epoch = 0;
    std::int64_t waited = 0;             // epochs since then
    std::vector<NamedTensor> weights{};  // of the best epoch, with restore_best
  };

  bool is_better(double value) const;
  std::string group() const;

  Options options_;
  Monitored monitored_;
  Memory memory_;
};

}  // namespace mezzo::train
