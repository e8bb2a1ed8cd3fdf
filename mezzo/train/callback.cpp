#include "mezzo/train/callback.h"

#include <algorithm>
#include <cmath>
#include <typeindex>

#include "mezzo/train/median.h"

namespace mezzo::train {
namespace {

constexpr const char* kDivergence = "divergence";

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

}  // namespace

std::string Callback::section(std::string_view name) const {
  return number_ == 1 ? std::string(name) : concat(name, ".", number_);
}

void number_by_class(std::span<Callback* const> callbacks) {
  std::map<std::type_index, std::int64_t> counts;
  for (Callback* callback : callbacks) callback->number_ = ++counts[typeid(*callback)];
}

LossMonitor::LossMonitor(std::int64_t per_print_times, std::FILE* out)
    : every_(per_print_times), out_(out) {
  check_arg(every_ >= 1, "LossMonitor", "per_print_times must be at least 1: ", every_);
}

void LossMonitor::on_step_end(FitState& state) {
  if (state.step % every_ != 0) return;
  std::fprintf(out_, "epoch: %lld step: %lld, loss is %.7g%s\n",
               static_cast<long long>(state.epoch), static_cast<long long>(state.step_in_epoch),
               state.result.loss, state.result.skipped ? " (step skipped)" : "");
}

void TimeMonitor::on_epoch_begin(FitState& state) {
  start_ = std::chrono::steady_clock::now();
  steps_before_ = state.step_in_epoch;
}

void TimeMonitor::on_epoch_end(FitState& state) {
  const double ms = milliseconds_since(start_);
  const auto steps =
      static_cast<double>(std::max<std::int64_t>(1, state.step_in_epoch - steps_before_));
  std::fprintf(out_, "epoch time: %.3f ms, per step time: %.3f ms\n", ms, ms / steps);
}

StepTimer::StepTimer(std::int64_t per_print_times, std::FILE* out)
    : every_(per_print_times), out_(out) {
  check_arg(every_ >= 0, "StepTimer", "per_print_times must not be negative: ", every_);
}

void StepTimer::on_step_begin(FitState&) { start_ = std::chrono::steady_clock::now(); }

void StepTimer::on_step_end(FitState& state) {
  times_.push_back(milliseconds_since(start_));
  if (every_ == 0 || state.step % every_ != 0) return;
  std::fprintf(out_, "epoch: %lld step: %lld, step time: %.3f ms\n",
               static_cast<long long>(state.epoch), static_cast<long long>(state.step_in_epoch),
               times_.back());
}

double StepTimer::median_ms() const { return median(times_); }

StopOnDivergence::StopOnDivergence(Options options) : options_(options) {
  check_arg(options.factor > 1 && options.patience >= 1, "StopOnDivergence",
            "factor must be over 1 and patience at least 1: ", options.factor, " and ",
            options.patience);
}

void StopOnDivergence::on_train_begin(FitState& state) {
  if (!state.resumed_from.empty()) return;
  lowest_ = std::numeric_limits<double>::infinity();
  in_a_row_ = 0;
}

void StopOnDivergence::on_step_end(FitState& state) {
  const double loss = state.result.loss;
  // For positive losses, this means more than `factor` times the lowest.
  const bool is_compared = std::isfinite(options_.factor) && std::isfinite(lowest_);
  const bool is_above = is_compared && loss - lowest_ > (options_.factor - 1) * std::abs(lowest_);
  const bool diverged = !std::isfinite(loss) || is_above;
  in_a_row_ = diverged ? in_a_row_ + 1 : 0;
  if (std::isfinite(loss)) lowest_ = std::min(lowest_, loss);
  if (has_stopped()) state.stop = true;
}

void StopOnDivergence::save(io::Checkpoint& checkpoint) const {
  checkpoint.values[section(kDivergence)] = {{"lowest", lowest_}, {"in_a_row", in_a_row_}};
}

void StopOnDivergence::load(const io::Checkpoint& checkpoint) {
  const std::string own = section(kDivergence);
  const bool is_there = checkpoint.values.contains(own);
  const double lowest =
      is_there ? checkpoint.value<double>(own, "lowest") : std::numeric_limits<double>::infinity();
  in_a_row_ = is_there ? checkpoint.value<std::int64_t>(own, "in_a_row") : 0;
  lowest_ = lowest;
}

}  // namespace mezzo::train
