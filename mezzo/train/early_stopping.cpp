#include "mezzo/train/early_stopping.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "mezzo/train/model.h"

namespace mezzo::train {
namespace {

constexpr const char* kEarly = "EarlyStopping";
constexpr const char* kSection = "early_stopping";

std::vector<NamedTensor> copies_of(const std::vector<NamedTensor>& tensors) {
  std::vector<NamedTensor> copies;
  copies.reserve(tensors.size());
  for (const NamedTensor& entry : tensors) copies.push_back({entry.name, copy_of(entry.tensor)});
  return copies;
}

}  // namespace

EarlyStopping::EarlyStopping(Options options)
    : options_(std::move(options)), monitored_{options_.monitor, options_.prefers_low} {
  check_arg(options_.patience >= 1 && options_.start_from_epoch >= 1, kEarly,
            "patience and start_from_epoch must be at least 1: ", options_.patience, " and ",
            options_.start_from_epoch);
  check_arg(std::isfinite(options_.min_delta) && options_.min_delta >= 0, kEarly,
            "min_delta must be finite and not negative: ", options_.min_delta);
}

void EarlyStopping::check(FitState& state) { monitored_.check(state, kEarly); }

void EarlyStopping::on_train_begin(FitState& state) {
  monitored_.settle(state, kEarly);
  if (state.resumed_from.empty()) memory_ = {};
  if (has_stopped()) state.stop = true;
}

// A NaN is never better.
bool EarlyStopping::is_better(double value) const {
  if (std::isnan(value)) return false;
  if (!memory_.best.has_value()) return true;
  return *monitored_.prefers_low ? value < *memory_.best - options_.min_delta
                                 : value > *memory_.best + options_.min_delta;
}

void EarlyStopping::on_epoch_end(FitState& state) {
  if (!state.epoch_is_complete || state.epoch < options_.start_from_epoch) return;
  const double value = monitored_.value(state);
  ++memory_.waited;
  if (is_better(value)) {
    memory_.best = value;
    memory_.best_epoch = state.epoch;
    memory_.waited = 0;
    if (options_.restore_best) {
      memory_.weights = copies_of(state.evaluated_weights ? state.evaluated_weights()
                                                          : state.model.net().state());
    }
  }
  if (has_stopped()) state.stop = true;
}

void EarlyStopping::after_train(FitState& state) {
  if (!memory_.weights.empty()) state.model.net().load_state(memory_.weights);
}

std::string EarlyStopping::group() const {
  std::string name = section(kSection);
  std::ranges::replace(name, '.', '_');
  return name;
}

void EarlyStopping::save(io::Checkpoint& checkpoint) const {
  io::CheckpointValues& values = checkpoint.values[section(kSection)];
  values = {{"waited", memory_.waited}, {"best_epoch", memory_.best_epoch}};
  if (memory_.best.has_value()) values["best"] = *memory_.best;
  if (!memory_.weights.empty()) checkpoint.groups.push_back({group(), memory_.weights});
}

void EarlyStopping::load(const io::Checkpoint& checkpoint) {
  const std::string own = section(kSection);
  Memory loaded;
  const auto found = checkpoint.values.find(own);
  if (found != checkpoint.values.end()) {
    loaded.waited = checkpoint.value<std::int64_t>(own, "waited");
    loaded.best_epoch = checkpoint.value<std::int64_t>(own, "best_epoch");
    if (found->second.contains("best")) loaded.best = checkpoint.value<double>(own, "best");
    const bool has_weights =
        std::ranges::count(checkpoint.groups, group(), &io::CheckpointGroup::name) > 0;
    if (has_weights) loaded.weights = checkpoint.tensors(group());
  }
  memory_ = std::move(loaded);
}

}  // namespace mezzo::train
