// The update of a training step: as one piece of host work, queued, or by leaf. Also the exchange
// between processes for it.
#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "mezzo/amp/gradient_statistics.h"
#include "mezzo/amp/train_step.h"
#include "mezzo/core/log.h"
#include "mezzo/distributed/agreement.h"
#include "mezzo/distributed/average.h"
#include "mezzo/distributed/tensors.h"
#include "mezzo/ops/dispatcher/capture_hook.h"
#include "mezzo/optim/gradients.h"
#include "mezzo/optim/step_in_parts.h"

namespace mezzo::amp {

// Called once: all processes begin with the state of process 0. That includes the optimizer's
// counters, because stochastic rounding draws its random numbers by them.
void TrainStep::begin_together() {
  distributed::ProcessGroup& processes = *options_.processes;
  const auto check = [&](const char* what, auto value) {
    distributed::check_same(processes, "train_step", what, static_cast<double>(value),
                            "Make the same step in every process, and load the same state");
  };
  distributed::use_device(processes, net_.device());
  // Of a sharded optimizer, each process has its part already.
  std::vector<NamedTensor> state = is_sharded() ? std::vector<NamedTensor>() : optimizer_.state();
  const std::vector<optim::NamedCounter> counters = optimizer_.counters();
  const bool has_statistics = options_.statistics != nullptr || scaler_.statistics() != nullptr;
  check("the number of micro-batches", options_.micro_batches);
  check("whether the loss is a sum (1) or a mean (0)", loss_.loss().adds_up() ? 1 : 0);
  check("the number of the optimizer's states", optimizer_.state().size());
  check("whether processes share the optimizer's work (1) or not (0)", is_sharded() ? 1 : 0);
  check("the dtype in which gradients are exchanged", options_.reduce_dtype);
  check("whether gradients are counted (1) or not (0)", has_statistics ? 1 : 0);
  check("the number of the optimizer's counters", counters.size());
  for (NamedTensor& entry : net_.state()) state.push_back(std::move(entry));
  distributed::broadcast(processes, state);
  for (const optim::NamedCounter& counter : counters) {
    std::int64_t value = counter.value;
    distributed::broadcast(processes, value);
    optimizer_.set_counter(counter.name, value);
  }
}

// Null if this process trains alone. Gradients stay whole where somebody wants to see them.
optim::GradientExchange* TrainStep::begin_exchange() {
  if (options_.processes == nullptr) return nullptr;
  optimizer_.check_not_moved();
  const bool fits = exchange_ != nullptr && exchange_->params() == optimizer_.params().size() &&
                    exchange_->has_parts() == is_sharded();
  if (!fits) {
    const std::span<const Tensor> parts = optimizer_.params();
    exchange_ = optim::GradientExchange::make(optimizer_.whole_params(),
                                              is_sharded() ? parts : std::span<const Tensor>(),
                                              *options_.processes, options_.reduce_dtype);
  }
  const bool to_parts = is_sharded() && !shows_whole_gradients();
  exchange_->begin(to_parts ? optim::GradientExchange::Kind::kParts
                            : optim::GradientExchange::Kind::kWhole);
  return exchange_.get();
}

bool TrainStep::shows_whole_gradients() const {
  const GradientStatistics* statistics = scaler_.statistics();
  return shows_gradients() || (statistics != nullptr && statistics->is_due());
}

// With its own scale a process would divide by another number than the others, or skip a step that
// they do: https://github.com/pytorch/pytorch/issues/136009.
optim::GradientExchange::Note TrainStep::scale_note() {
  return {.number = [this] { return result_.scale; },
          .explain =
              [this] {
                distributed::check_same(
                    *options_.processes, "train_step", "the loss scale", result_.scale,
                    "Make the same scaler in every process, and load the same state");
              }};
}

bool TrainStep::shows_gradients() const {
  return std::ranges::any_of(
      observing_, [](const StepObserver* observer) { return observer->sees_gradients(); });
}

// A captured program is also run in later steps, for their observers.
void TrainStep::show_gradients() {
  do_host_work("show_gradients", {}, optimizer_.whole_params(), [this](std::span<const Tensor>) {
    std::vector<NamedTensor> gradients;
    for (std::size_t i = 0; i < optimizer_.params().size(); ++i) {
      const Tensor& gradient = optimizer_.whole_params()[i].grad();
      if (gradient.defined()) gradients.push_back({name_of_parameter(i), gradient});
    }
    const WithoutCallListener not_of_the_step;
    for (StepObserver* observer : observing_) {
      if (observer->sees_gradients()) observer->on_gradients(gradients);
    }
    return true;
  });
}

// True if somebody wants to see the gradients of this step, or if they cannot be processed in
// place.
bool TrainStep::needs_host() const {
  const GradientStatistics* statistics = scaler_.statistics();
  if (statistics != nullptr && statistics->is_due()) return true;
  if (shows_gradients()) return true;
  if (options_.processes != nullptr) return true;  // it exchanges gradients on the host
  return !UpdateOnDevice::fits(players(), losses_.tensors, scaler_.is_enabled());
}

// True if it is known before the backward pass that an update will follow, whatever the gradients,
// and nobody wants to see them first.
bool TrainStep::updates_by_leaf() const {
  const GradientStatistics* statistics = scaler_.statistics();
  const bool counts = statistics != nullptr && statistics->is_due();
  return captures_by_leaf() && losses_.tensors.empty() && !counts && !shows_gradients() &&
         !scaler_.checks_gradients() && !checks_unscaled() && options_.processes == nullptr &&
         optim::StepInParts::fits(optimizer_);
}

// Notes an update that graph mode may do in parts, each after the last reader of its parameters
// (graph/passes/update_in_backward.cpp).
void TrainStep::note_update_by_leaf() {
  const auto parts = std::make_shared<optim::StepInParts>(std::vector{&optimizer_});
  const auto begin = [this, parts] {
    parts->begin(1 / scaler_.begin_steps(players()).front().scale);
  };
  const auto some = [this, parts](std::span<const std::size_t> params) {
    const StepPhase before = phase_;
    if (before != StepPhase::kUpdate) enter(StepPhase::kUpdate);
    parts->step(params);
    if (before != StepPhase::kUpdate) enter(before);
  };
  const auto end = [this, parts] {
    const std::vector<bool> had_gradients = parts->finish();
    take_result(scaler_.end_steps(players(), had_gradients, {.first_bad = {{}}}).front());
    end_update();
    end_phase();
  };
  note_by_leaf("update", optimizer_.params(),
               {.begin = begin, .some = some, .end = end, .changes = parts->state()});
}

// Losses that were not read yet are read after the update.
void TrainStep::queue_update() {
  const Losses losses = std::exchange(losses_, {});
  const bool checks_gradients =
      scaler_.is_enabled() ? scaler_.checks_gradients() : checks_unscaled();
  const UpdateOnDevice::Checks checks{.gradients = checks_gradients,
                                      .losses = skips_nonfinite_loss()};
  if (update_ == nullptr || update_params_ != optimizer_.params().size() ||
      update_checks_ != checks) {
    update_params_ = optimizer_.params().size();
    update_checks_ = checks;
    update_ = std::make_shared<UpdateOnDevice>(
        players(), static_cast<std::size_t>(options_.micro_batches), checks);
  }
  // A captured step keeps its own update object, even if steps of another scaler come in between:
  // it was captured for certain checks, and recordings hold the addresses of its lists and flags.
  const auto prepare = [this, update = update_] {
    update->prepare(scaler_.begin_steps(players()));
    // This runs last: the copies on devices are launched with the update, if not before.
    buffers_.complete();
  };
  const auto queue = [update = update_](std::span<const Tensor> reads) { update->queue(reads); };
  const auto finish = [this, update = update_, weights = losses.weights](std::span<const Tensor>) {
    return finish_update(*update, weights);
  };
  do_queued_work("update", losses.tensors, optimizer_.params(), prepare, queue);
  do_host_work("finish_update", {}, {}, finish);
}

bool TrainStep::finish_update(UpdateOnDevice& update, std::span<const double> weights) {
  const UpdateOnDevice::Outcome outcome = update.finish(weights.size());
  for (std::size_t i = 0; i < weights.size(); ++i) add_loss(outcome.losses[i], weights[i]);
  if (!goes_on()) return false;
  result_.grad_norm = outcome.grad_norms[0];
  StepResult step = scaler_.end_steps(players(), update.has_gradients(), outcome).front();
  step.first_bad = outcome.first_bad[0];
  step.found_inf = step.first_bad.has_value();
  take_result(step);
  end_update();
  end_phase();
  return true;
}

void TrainStep::update() {
  clip();
  check_unscaled();
  if (!result_.skipped) take_result(scaler_.step(optimizer_));
  end_update();
}

void TrainStep::take_result(const StepResult& step) {
  result_.overflow = step.found_inf;
  result_.skipped = step.found_inf;
  if (step.first_bad.has_value()) result_.first_bad = name_of_parameter(*step.first_bad);
}

void TrainStep::end_update() {
  count_skip();
  if (result_.skipped) buffers_.restore();
  scaler_.update();
  if (result_.skipped) {
    logging::write(logging::Topic::kAmp, "the gradient of ", result_.first_bad,
                   " is not finite at scale ", result_.scale, "; the next scale is ",
                   scaler_.get_scale());
    warn_if_many();
  }
}

void TrainStep::clip() {
  if (!options_.max_grad_norm.has_value()) return;
  scaler_.unscale_(optimizer_);
  result_.grad_norm = optim::clip_grad_norm(optimizer_.params(), *options_.max_grad_norm);
}

void TrainStep::check_unscaled() {
  if (scaler_.is_enabled() || !checks_unscaled()) return;
  if (result_.grad_norm.has_value() && std::isfinite(*result_.grad_norm)) return;
  const std::optional<std::size_t> bad = optim::first_nonfinite_grad(optimizer_.params());
  // The norm of finite gradients may be infinite.
  if (!bad.has_value() && !result_.grad_norm.has_value()) return;
  result_.overflow = true;
  result_.skipped = true;
  if (bad.has_value()) result_.first_bad = name_of_parameter(*bad);
}

}  // namespace mezzo::amp
