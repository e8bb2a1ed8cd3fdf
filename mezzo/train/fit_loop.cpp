// The loop of fit(): epochs, with their steps and evaluations.
#include <algorithm>
#include <chrono>
#include <limits>

#include "mezzo/distributed/agreement.h"
#include "mezzo/distributed/average.h"
#include "mezzo/nn/freeze.h"
#include "mezzo/optim/learning_rate.h"
#include "mezzo/train/evaluating.h"
#include "mezzo/train/fit.h"

namespace mezzo::train {
namespace {

// Checks all rates now, not each when its step comes, which may be in a week.
void check_rates(const FitOptions& options) {
  for (std::size_t i = 0; i < options.lr.size(); ++i) {
    check_arg(optim::is_rate(options.lr[i]), "Model", "the learning rate of step ", i + 1, " is ",
              options.lr[i], ". Learning rates must be 0 or more, and finite in f32");
  }
}

// The step at which the training ends, by epochs or by steps. Any representable number of epochs is
// valid.
std::int64_t last_step(const Fit& fit, std::int64_t epochs, std::int64_t in_epoch) {
  const std::int64_t per_epoch = fit.state.steps_per_epoch;
  const std::int64_t countable = (std::numeric_limits<std::int64_t>::max() - fit.state.step) /
                                 std::max<std::int64_t>(per_epoch, 1);
  const std::int64_t left = std::min(epochs - fit.epochs_done, countable);
  return std::min(fit.options.steps, fit.state.step + left * per_epoch - in_epoch);
}

// Called after every hook that may have set `stop`: a process that stopped alone would keep the
// others waiting.
void agree_to_stop(Fit& fit) {
  if (fit.processes() != nullptr) {
    fit.state.stop = distributed::any(*fit.processes(), fit.state.stop);
  }
}

// After an epoch's last batch, the loader must be called once more to move to the next epoch.
void go_to_next_epoch(Fit& fit) {
  data::Batch none;
  if (fit.is_at_end()) fit.loader.next(none);
}

// Keeps the original error if the hook fails, too.
void save_in_spite(Fit& fit, void (Callback::*hook)(FitState&)) {
  try {
    fit.each(hook);
  } catch (...) {  // NOLINT(bugprone-empty-catch)
  }
}

void evaluate(Fit& fit) {
  try {
    const Evaluating evaluating(fit.options.callbacks, fit.state);
    fit.state.metrics = fit.model.eval(*fit.options.validation);
  } catch (...) {
    save_in_spite(fit, &Callback::on_evaluation_failed);
    if (fit.processes() != nullptr) distributed::meet_in_failure(*fit.processes());
    throw;
  }
}

// The steps so far may have taken a day, so a loader that fails keeps its position.
bool ask_loader(Fit& fit, data::Batch& batch) {
  try {
    return fit.loader.next(batch);
  } catch (...) {
    save_in_spite(fit, &Callback::on_batch_failed);
    throw;
  }
}

// Where the epoch or the training ends, an evaluation follows anyway. The answer depends on the
// step alone, so that processes that train together give the same one.
bool is_evaluated_within(const Fit& fit) {
  const std::int64_t every = fit.options.validation_every;
  const FitState& state = fit.state;
  return fit.options.validation != nullptr && every > 0 && state.step % every == 0 &&
         state.step < state.total_steps && !fit.is_at_end();
}

void evaluate_within(Fit& fit) {
  evaluate(fit);
  fit.each(&Callback::on_step_evaluated);
}

bool next_batch(Fit& fit, data::Batch& batch) {
  const auto start = std::chrono::steady_clock::now();
  const bool found = ask_loader(fit, batch);
  const std::chrono::duration<double, std::milli> waited = std::chrono::steady_clock::now() - start;
  fit.state.wait_ms = waited.count();
  return found;
}

void run_step(Fit& fit, const data::Batch& batch) {
  FitState& state = fit.state;
  optim::Optimizer& optimizer = fit.model.optimizer();
  const std::vector<double>& rates = fit.options.lr;
  if (!rates.empty()) {
    optimizer.set_lr(rates[std::min(static_cast<std::size_t>(state.step), rates.size() - 1)]);
  }
  state.lr = optimizer.lr();
  ++state.step;
  ++state.step_in_epoch;
  state.batch = &batch;
  fit.each(&Callback::on_step_begin);
  state.lr = optimizer.lr();  // a callback may have set it
  state.result = fit.model.train_step()(step_batch_of(batch).to(fit.model.net().device()));
  state.skipped_steps += state.result.skipped ? 1 : 0;
  fit.each(&Callback::on_step_end);
  state.batch = nullptr;
  state.step_is_evaluated = is_evaluated_within(fit);
  if (state.step_is_evaluated) evaluate_within(fit);
  fit.each(&Callback::after_step);
  agree_to_stop(fit);
}

void run_steps(Fit& fit) {
  const FitState& state = fit.state;
  data::Batch batch;
  while (state.step < state.total_steps && !state.stop && !fit.is_at_end()) {
    if (!next_batch(fit, batch)) return;
    run_step(fit, batch);
  }
}

void run_epoch(Fit& fit) {
  FitState& state = fit.state;
  ++state.epoch;
  fit.each(&Callback::on_epoch_begin);
  agree_to_stop(fit);
  // Layers in it that were set to eval(), such as frozen batch norms, stay so.
  if (!fit.model.net().is_training()) {
    fit.model.net().train();
    nn::eval_frozen_norms(fit.model.net());
  }
  if (!state.stop) check_norms(fit);
  run_steps(fit);
  state.epoch_is_complete = fit.is_at_end();
  if (state.stop && !state.epoch_is_complete) return;
  // Before the epoch ends: a checkpoint taken here resumes with the evaluation.
  if (fit.options.validation != nullptr) evaluate(fit);
  go_to_next_epoch(fit);
  fit.epochs_done += state.epoch_is_complete ? 1 : 0;
  fit.each(&Callback::on_epoch_end);
  fit.each(&Callback::after_epoch);
  agree_to_stop(fit);
  state.step_in_epoch = 0;
}

// Determines where the training begins and ends, and checks whether it can reach the end.
void begin(Fit& fit, std::int64_t epochs) {
  FitState& state = fit.state;
  const std::int64_t in_epoch = fit.loader.position().step;
  state.total_steps = last_step(fit, epochs, in_epoch);
  if (fit.processes() != nullptr) check_together(fit);
  check_arg(state.steps_per_epoch >= 1, "Model", "an epoch has no batch for shard ",
            fit.loader.order().shard.index, " of ", fit.loader.order().shard.count,
            ". Use fewer shards, or smaller batches");
  state.step_in_epoch = in_epoch;
  state.lr = fit.model.optimizer().lr();
  check_fit(fit);
}

FitResult result_of(const Fit& fit) {
  const FitState& state = fit.state;
  // The epoch of a resumed run's position has already begun, whether or not it is continued.
  const bool stands_within = state.epoch == fit.epochs_done && state.step_in_epoch > 0;
  return {.epochs = state.epoch + (stands_within ? 1 : 0),
          .steps = state.step,
          .skipped_steps = state.skipped_steps,
          .stopped = state.stop,
          .metrics = state.metrics};
}

}  // namespace

Fit::Fit(Model& of, data::BatchSource& batches, const FitOptions& with)
    : model(of), loader(batches), options(with), state{.model = of} {
  check_arg(std::ranges::count(options.callbacks, nullptr) == 0, "Model",
            "a callback is null. Leave it out");
  number_by_class(options.callbacks);
  model.train_step().check_optimizer();
  check_rates(options);
  state.steps_per_epoch = loader.steps_per_epoch();
  state.has_validation = options.validation != nullptr;
  state.has_rates = !options.lr.empty();
}

FitResult run_fit(Fit& fit, std::int64_t epochs) {
  fit.state.capture = [&fit] { return capture_fit(fit); };
  if (!resume_fit(fit)) go_to_next_epoch(fit);
  const OwnRandomStream stream(fit.processes());
  begin(fit, epochs);
  fit.each(&Callback::on_train_begin);
  check_begun(fit);
  agree_to_stop(fit);
  while (!fit.state.stop && fit.has_work()) run_epoch(fit);
  fit.each(&Callback::on_train_end);
  if (fit.processes() != nullptr) distributed::meet(*fit.processes());  // a checkpoint is written
  fit.each(&Callback::after_train);
  return result_of(fit);
}

}  // namespace mezzo::train
