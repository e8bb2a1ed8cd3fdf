#include "mezzo/train/reduce_lr.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "mezzo/train/model.h"

namespace mezzo::train {
namespace {

constexpr const char* kReduce = "ReduceLROnPlateau";
constexpr const char* kPlateauSection = "plateau";

bool is_number(double value) { return std::isfinite(value) && value >= 0; }

std::string rate_name(std::size_t group) { return concat("lr.", group); }

}  // namespace

ReduceLROnPlateau::ReduceLROnPlateau(Options options)
    : options_(std::move(options)), monitored_{options_.monitor, options_.prefers_low} {
  check_arg(options_.factor >= 0 && options_.factor < 1, kReduce,
            "factor must be at least 0 and below 1: ", options_.factor);
  check_arg(options_.patience >= 0 && options_.cooldown >= 0 && options_.start_from_epoch >= 1,
            kReduce, "patience and cooldown must not be negative and start_from_epoch at least 1: ",
            options_.patience, ", ", options_.cooldown, " and ", options_.start_from_epoch);
  check_arg(is_number(options_.threshold) && is_number(options_.eps), kReduce,
            "threshold and eps must be finite and not negative: ", options_.threshold, " and ",
            options_.eps);
  check_arg(!options_.min_lr.empty() && std::ranges::all_of(options_.min_lr, is_number), kReduce,
            "min_lr is one rate or one for each group, finite and not negative");
}

void ReduceLROnPlateau::check_rates(const FitState& state) const {
  const optim::Optimizer& optimizer = state.model.optimizer();
  check_arg(!state.has_rates, kReduce,
            "FitOptions::lr sets the rate of every step, which would undo a reduction. Leave one "
            "of the two out");
  for (std::size_t group = 0; group < optimizer.groups(); ++group) {
    check_arg(optimizer.has_constant_lr(group), kReduce, "the rate of group ", group,
              " is an array with one for every update, which would undo a reduction. Give it a "
              "number");
  }
  check_arg(options_.min_lr.size() == 1 || options_.min_lr.size() == optimizer.groups(), kReduce,
            "min_lr has ", options_.min_lr.size(), " rates, and the optimizer ", optimizer.groups(),
            " groups. Give one, or one for each");
}

void ReduceLROnPlateau::check(FitState& state) {
  monitored_.check(state, kReduce);
  check_rates(state);
}

void ReduceLROnPlateau::on_train_begin(FitState& state) {
  monitored_.settle(state, kReduce);
  if (state.resumed_from.empty()) memory_ = {};
  if (memory_.rates.empty()) return;
  optim::Optimizer& optimizer = state.model.optimizer();
  check_arg(memory_.rates.size() <= optimizer.groups(), kReduce, "the checkpoint has the rates of ",
            memory_.rates.size(), " groups, and the optimizer has ", optimizer.groups(),
            ". Make the same optimizer");
  for (std::size_t g = 0; g < memory_.rates.size(); ++g) optimizer.set_lr(memory_.rates[g], g);
}

bool ReduceLROnPlateau::is_better(double value) const {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const bool is_low = *monitored_.prefers_low;
  const double best = memory_.best.value_or(is_low ? kInfinity : -kInfinity);
  const double threshold = options_.threshold;
  const bool is_relative = options_.threshold_mode == Threshold::kRelative;
  if (is_low) {
    return value < (is_relative ? best * (1 - threshold) : best - threshold);
  }
  return value > (is_relative ? best * (1 + threshold) : best + threshold);
}

// In PyTorch's order: an epoch of the cooldown is not bad, and a better epoch also counts down the
// cooldown.
void ReduceLROnPlateau::on_epoch_end(FitState& state) {
  if (!state.epoch_is_complete || state.epoch < options_.start_from_epoch) return;
  const double value = monitored_.value(state);
  ++memory_.bad_epochs;
  if (is_better(value)) {
    memory_.best = value;
    memory_.bad_epochs = 0;
  }
  if (memory_.cooldown > 0) {
    --memory_.cooldown;
    memory_.bad_epochs = 0;
  }
  if (memory_.bad_epochs > options_.patience) {
    reduce(state);
    memory_.cooldown = options_.cooldown;
    memory_.bad_epochs = 0;
  }
}

void ReduceLROnPlateau::reduce(FitState& state) {
  optim::Optimizer& optimizer = state.model.optimizer();
  check_rates(state);  // a group may have been added since
  bool is_less = false;
  memory_.rates.clear();
  for (std::size_t group = 0; group < optimizer.groups(); ++group) {
    const double old = optimizer.lr(group);
    const double least = options_.min_lr[options_.min_lr.size() == 1 ? 0 : group];
    const double reduced = std::max(old * options_.factor, least);
    if (old - reduced > options_.eps) {
      optimizer.set_lr(reduced, group);
      is_less = true;
    }
    memory_.rates.push_back(optimizer.lr(group));
  }
  memory_.reductions += is_less ? 1 : 0;
}

void ReduceLROnPlateau::save(io::Checkpoint& checkpoint) const {
  io::CheckpointValues& values = checkpoint.values[section(kPlateauSection)];
  values = {{"bad_epochs", memory_.bad_epochs},
            {"cooldown", memory_.cooldown},
            {"reductions", memory_.reductions},
            {"groups", static_cast<std::int64_t>(memory_.rates.size())}};
  if (memory_.best.has_value()) values["best"] = *memory_.best;
  for (std::size_t g = 0; g < memory_.rates.size(); ++g) values[rate_name(g)] = memory_.rates[g];
}

void ReduceLROnPlateau::load(const io::Checkpoint& checkpoint) {
  const std::string own = section(kPlateauSection);
  Memory loaded;
  const auto found = checkpoint.values.find(own);
  if (found != checkpoint.values.end()) {
    const auto number = [&](const char* name) { return checkpoint.value<std::int64_t>(own, name); };
    if (found->second.contains("best")) loaded.best = checkpoint.value<double>(own, "best");
    loaded.bad_epochs = number("bad_epochs");
    loaded.cooldown = number("cooldown");
    loaded.reductions = number("reductions");
    const auto groups = static_cast<std::size_t>(std::max<std::int64_t>(number("groups"), 0));
    for (std::size_t g = 0; g < groups; ++g) {
      loaded.rates.push_back(checkpoint.value<double>(own, rate_name(g)));
    }
  }
  memory_ = std::move(loaded);
}

}  // namespace mezzo::train
