#include "mezzo/train/moving_average.h"

#include <algorithm>

#include "mezzo/train/checkpointing.h"
#include "mezzo/train/model.h"

namespace mezzo::train {
namespace {

constexpr const char* kEma = "ema";
constexpr const char* kUpdates = "updates";
constexpr const char* kEvaluated = "evaluated";

}  // namespace

ExponentialMovingAverage::ExponentialMovingAverage(Options options) : options_(options) {
  const double decay = options.weights.decay;
  check_arg(
      decay >= 0 && decay < 1, "ExponentialMovingAverage",
      "the decay is the part of the average that a step keeps, at least 0 and below 1: ", decay);
}

void ExponentialMovingAverage::on_train_begin(FitState& state) {
  nn::Module& net = state.model.net();
  if (loaded_.has_value() || !average_.has_value() || !average_->is_of(net)) {
    AveragedWeights begun(net, options_.weights);
    if (loaded_.has_value()) begun.load(loaded_->state, loaded_->updates);
    average_.emplace(std::move(begun));
    loaded_.reset();
  }
  if (!options_.evaluate) return;
  check_arg(state.evaluated_weights == nullptr, "ExponentialMovingAverage",
            "two averages are to be evaluated, but a metric has only one value. Set evaluate to "
            "false in all but one");
  state.evaluated_weights = [this] { return average_->state(); };
}

// A skipped step does not change the weights.
void ExponentialMovingAverage::on_step_end(FitState& state) {
  if (!state.result.skipped) average_->update();
}

void ExponentialMovingAverage::on_evaluation_begin(FitState&) {
  if (options_.evaluate) in_use_.emplace(*average_);
}

void ExponentialMovingAverage::on_evaluation_end(FitState&) { in_use_.reset(); }

std::vector<NamedTensor> ExponentialMovingAverage::state() const {
  check_arg(average_.has_value(), "ExponentialMovingAverage",
            "there is no average before the first training. Call fit() first");
  return average_->state();
}

// Names of groups have no dots.
std::string ExponentialMovingAverage::group() const {
  std::string name = section(kEma);
  std::ranges::replace(name, '.', '_');
  return name;
}

void ExponentialMovingAverage::save(io::Checkpoint& checkpoint) const {
  if (!loaded_.has_value() && !average_.has_value()) return;
  const std::int64_t updates = loaded_.has_value() ? loaded_->updates : average_->updates();
  checkpoint.groups.push_back({group(), loaded_.has_value() ? loaded_->state : state()});
  checkpoint.values[section(kEma)] = {{kUpdates, updates}, {kEvaluated, options_.evaluate}};
}

void ExponentialMovingAverage::load(const io::Checkpoint& checkpoint) {
  if (!checkpoint.values.contains(section(kEma))) {
    loaded_.reset();
    average_.reset();
    return;
  }
  const auto updates = checkpoint.value<std::int64_t>(section(kEma), kUpdates);
  loaded_ = Loaded{checkpoint.tensors(group()), updates};
}

const std::vector<NamedTensor>& evaluated_weights(const io::Checkpoint& checkpoint) {
  const bool has_average = checkpoint.values.contains(kEma);
  const bool is_evaluated = has_average && checkpoint.value<bool>(kEma, kEvaluated);
  return checkpoint.tensors(is_evaluated ? kEma : kModelGroup);
}

}  // namespace mezzo::train
