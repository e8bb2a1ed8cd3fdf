// ReduceLROnPlateau: lowers the learning rate when a metric no longer improves.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mezzo/train/monitored.h"

namespace mezzo::train {

// PyTorch's torch.optim.lr_scheduler.ReduceLROnPlateau, called after each epoch's validation. If
// the metric has not improved for more than `patience` epochs, the rate of every parameter group
// becomes rate * factor, but not less than min_lr. Epochs that FitOptions::steps cuts short do not
// count; a training that resumes there evaluates them again.
//
//   train::ReduceLROnPlateau plateau({.monitor = "loss", .factor = 0.5, .patience = 3});
//   model.fit(100, loader, {.callbacks = {&plateau}, .validation = &test});
//
// The rates are the optimizer's own, one for each group, and checkpoints store them once they were
// reduced. Rates that are set for every step, by FitOptions::lr or an array in the optimizer's
// options, would overwrite the reduced ones: check() refuses them.
class ReduceLROnPlateau final : public Callback {
 public:
  enum class Threshold : std::uint8_t {
    kRelative,  // better than best * (1 - threshold), or best * (1 + threshold) if higher is better
    kAbsolute,  // better than best - threshold, or best + threshold
  };
  struct Options {
    std::string monitor = "loss";  // a metric of the validation
    double factor = 0.1;           // at least 0 and below 1
    std::int64_t patience = 10;    // epochs without improvement that are tolerated
    double threshold = 1e-4;
    Threshold threshold_mode = Threshold::kRelative;
    std::int64_t cooldown = 0;        // epochs after a reduction that do not count as bad
    std::vector<double> min_lr{0.0};  // one for all parameter groups, or one for each
    double eps = 1e-8;                // rates change by more than this or not at all
    // Whether lower is better. If unset, Metric::prefers_low() decides.
    std::optional<bool> prefers_low{};
    std::int64_t start_from_epoch = 1;  // earlier epochs, counted from 1, do not count
  };
  // Throws ArgumentError unless factor is at least 0 and below 1, start_from_epoch is at least 1,
  // and no other number is negative or infinite.
  explicit ReduceLROnPlateau(Options options);
  ReduceLROnPlateau() : ReduceLROnPlateau(Options{}) {}

  // Throws ArgumentError without a validation, if there is no such metric, if rates are set for
  // every step, and if min_lr is neither one number nor one for each group.
  void check(FitState& state) override;
  // Starts anew, unless the training resumes from a checkpoint.
  void on_train_begin(FitState& state) override;
  void on_epoch_end(FitState& state) override;
  void save(io::Checkpoint& checkpoint) const override;
  void load(const io::Checkpoint& checkpoint) override;

  // How many times a rate was reduced.
  std::int64_t reductions() const { return memory_.reductions; }
  const std::string& monitor() const { return monitored_.name; }

 private:
  struct Memory {
    std::optional<double> best{};
    std::int64_t bad_epochs = 0;  // since the best one, a reduction or the end of a cooldown
    std::int64_t cooldown = 0;    // remaining epochs
    std::int64_t reductions = 0;
    std::vector<double> rates{};  // of the groups, once reduced
  };

  bool is_better(double value) const;
  void reduce(FitState& state);
  void check_rates(const FitState& state) const;

  Options options_;
  Monitored monitored_;
  Memory memory_;
};

}  // namespace mezzo::train
