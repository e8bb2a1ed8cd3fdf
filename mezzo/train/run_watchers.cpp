#include "mezzo/train/run_watchers.h"

#include <cmath>
#include <utility>

#include "mezzo/train/model.h"

namespace mezzo::train {
namespace {

ReduceLROnPlateau::Options plateau_options(const RunOptions& options) {
  const ScheduleOptions& schedule = options.schedule;
  return {.monitor = options.watch.monitor,
          .factor = schedule.lr_factor,
          .patience = schedule.lr_patience,
          .cooldown = schedule.lr_cooldown,
          .min_lr = {schedule.lr_end},
          .start_from_epoch = std::llround(std::ceil(schedule.warmup_epochs)) + 1};
}

}  // namespace

RunWatchers::RunWatchers(const RunOptions& options, RunObserver& observer) : observer_(observer) {
  const WatchOptions& watch = options.watch;
  if (watch.ema.has_value()) {
    average_.emplace(ExponentialMovingAverage::Options{
        .weights = {.decay = *watch.ema, .warmup = watch.ema_warmup}});
  }
  if (options.schedule.kind == ScheduleKind::kPlateau) plateau_.emplace(plateau_options(options));
  if (watch.early_stop.has_value()) {
    stopping_.emplace(
        EarlyStopping::Options{.monitor = watch.monitor, .patience = *watch.early_stop});
  }
}

void RunWatchers::append_to(std::vector<Callback*>& callbacks) {
  if (average_.has_value()) callbacks.push_back(&*average_);
  if (plateau_.has_value()) callbacks.push_back(&*plateau_);
  if (stopping_.has_value()) callbacks.push_back(&*stopping_);
  callbacks.push_back(this);
}

void RunWatchers::on_train_begin(FitState& state) {
  epoch_ = state.epoch;
  if (plateau_.has_value()) reductions_ = plateau_->reductions();
}

void RunWatchers::after_epoch(FitState& state) {
  epoch_ = state.epoch;
  if (plateau_.has_value() && plateau_->reductions() > reductions_) {
    reductions_ = plateau_->reductions();
    observer_.on_rate({.epoch = epoch_, .from = state.lr, .to = state.model.optimizer().lr()});
  }
  if (const auto stop = early_stop()) observer_.on_early_stop(*stop);
}

std::optional<EarlyStop> RunWatchers::early_stop() const {
  if (!stopping_.has_value() || !stopping_->has_stopped()) return std::nullopt;
  return EarlyStop{.epoch = epoch_,
                   .monitor = stopping_->monitor(),
                   .best = stopping_->best().value_or(std::nan("")),
                   .best_epoch = stopping_->best_epoch()};
}

std::optional<AveragedWeights::InUse> RunWatchers::use_average() const {
  if (!average_.has_value()) return std::nullopt;
  return std::optional<AveragedWeights::InUse>(std::in_place, *average_->average());
}

void RunWatchers::finish(nn::Module& net) const {
  if (average_.has_value()) net.load_state(average_->state());
}

}  // namespace mezzo::train
