#include "mezzo/train/run_reporter.h"

#include <algorithm>
#include <cmath>

#include "mezzo/core/device_backend.h"
#include "mezzo/train/configuration.h"
#include "mezzo/train/trainer.h"

namespace mezzo::train {
namespace {

constexpr const char* kMeanLoss = "mean_loss";

data::Batch on_host(const data::Batch& batch) {
  return {.images = batch.images.to(kCpuDevice),
          .labels = batch.labels.to(kCpuDevice),
          .indices = batch.indices};
}

}  // namespace

void RunReporter::on_train_begin(FitState& state) {
  if (!state.resumed_from.empty()) observer_.on_resume(state.resumed_from, state.step);
  observer_.on_start(state.total_steps);
}

void RunReporter::on_epoch_begin(FitState& state) {
  start_ = std::chrono::steady_clock::now();
  reset_peak_memory(options_.device);
  test_.reset();
  epoch_steps_ = 0;
  epoch_ms_ = 0;
  if (state.step_in_epoch == 0) mean_loss_ = MeanOfSteps{};
}

void RunReporter::on_step_begin(FitState& state) {
  if (steps_ == 0 && images_ != nullptr) {
    observer_.on_first_batch(on_host(*state.batch), *images_);
  }
  if (schedule_.sets(state.step - 1)) optimizer_.set_rate(schedule_.at(state.step - 1));
}

void RunReporter::on_step_end(FitState& state) {
  statistics_.add(state.result);
  // A step that is skipped for its loss changes nothing, but its loss would make the epoch's mean
  // NaN.
  if (std::isfinite(state.result.loss)) mean_loss_.add(state.result.loss);
  ++steps_;
  ++epoch_steps_;
  epoch_ms_ += state.wait_ms + state.result.total_ms();
  waited_ms_ += state.wait_ms;
  peak_bytes_ = std::max(peak_bytes_, memory_stats(options_.device).peak_bytes);
  observer_.on_step({.step = state.step,
                     .epoch = state.epoch,
                     .lr = state.lr,
                     .wait_ms = state.wait_ms,
                     .report = state.result});
  if (options_.should_stop && options_.should_stop()) state.stop = true;
}

void RunReporter::on_step_evaluated(FitState& state) {
  observer_.on_evaluation({.step = state.step,
                           .epoch = state.epoch,
                           .train_loss = mean_loss_.mean(),
                           .test = evaluation_of(state.metrics)});
}

std::int64_t RunReporter::tokens_of_step() const {
  return images_ == nullptr ? images_of_step(options_) * options_.tokens : 0;
}

void RunReporter::on_epoch_end(FitState& state) {
  test_ = evaluation_of(state.metrics);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start_;
  const auto tokens = static_cast<double>(epoch_steps_ * tokens_of_step());
  observer_.on_epoch({.epoch = state.epoch,
                      .train_loss = mean_loss_.mean(),
                      .test = *test_,
                      .seconds = elapsed.count(),
                      .tokens_per_s = epoch_ms_ > 0 ? 1000 * tokens / epoch_ms_ : 0});
}

void RunReporter::save(io::Checkpoint& checkpoint) const {
  checkpoint.values[kMeanLoss] = {{"value", mean_loss_.value}, {"steps", mean_loss_.steps}};
  add_configuration(checkpoint, configuration_of(options_));
}

void RunReporter::load(const io::Checkpoint& checkpoint) {
  check_configuration(checkpoint, configuration_of(options_));
  mean_loss_ = {.value = checkpoint.value<double>(kMeanLoss, "value"),
                .steps = checkpoint.value<std::int64_t>(kMeanLoss, "steps")};
}

RunResult RunReporter::result(const FitResult& fit) const {
  RunResult result;
  statistics_.write(result, images_of_step(options_));
  if (images_ == nullptr) {
    result.tokens_per_s = result.images_per_s * static_cast<double>(options_.tokens);
  }
  result.test = test_.value_or(Evaluation{});
  result.steps = fit.steps;
  result.epochs = fit.epochs;
  result.skipped_steps = fit.skipped_steps;
  result.peak_bytes = peak_bytes_;
  if (steps_ > 0) result.wait_ms_mean = waited_ms_ / static_cast<double>(steps_);
  result.stopped = fit.stopped && fit.steps < schedule_.total_steps;
  return result;
}

Evaluation RunReporter::evaluation_of(const std::map<std::string, double>& metrics) {
  const auto accuracy = metrics.find("accuracy");
  return {.loss = metrics.at("loss"),
          .accuracy = accuracy != metrics.end() ? accuracy->second : std::nan("")};
}

}  // namespace mezzo::train
