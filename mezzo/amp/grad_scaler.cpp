#include "mezzo/amp/grad_scaler.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string_view>

#include "mezzo/amp/autocast.h"
#include "mezzo/amp/gradient_statistics.h"
#include "mezzo/core/log.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/dispatcher/capture_hook.h"
#include "mezzo/optim/gradients.h"

namespace mezzo::amp {
namespace {

bool has_gradients(std::span<const Tensor> params) {
  return std::ranges::any_of(params, [](const Tensor& param) { return param.grad().defined(); });
}

// Dividing in 16 bits loses what the scale has saved. The gradients of 16-bit parameters are
// widened before that. A 16-bit gradient of an f32 parameter has already lost precision.
void check_f32_gradients(std::span<const Tensor> params) {
  for (std::size_t i = 0; i < params.size(); ++i) {
    const Tensor& grad = params[i].grad();
    if (!grad.defined() || is_lower(params[i].dtype())) continue;
    check_arg(grad.dtype() == DType::kF32, "grad_scaler", "the gradient of parameter ", i, " is ",
              grad, ", it must be f32 to be unscaled: divided in ", grad.dtype(),
              " it would lose what the scale has saved. Keep the parameter in f32 and compute in ",
              grad.dtype(), " with amp::Autocast");
  }
}

// The names of entries in a saved state.
constexpr const char* kScale = "scale";
constexpr const char* kGrowthFactor = "growth_factor";
constexpr const char* kBackoffFactor = "backoff_factor";
constexpr const char* kGrowthInterval = "growth_interval";
constexpr const char* kGrowthTracker = "_growth_tracker";
constexpr const char* kHysteresisLeft = "_hysteresis_left";
constexpr const char* kSkippedInARow = "_skipped_in_a_row";
constexpr std::string_view kKeys[] = {kScale,          kGrowthFactor,  kBackoffFactor,
                                      kGrowthInterval, kGrowthTracker, kHysteresisLeft,
                                      kSkippedInARow};

const double* find_entry(const GradScaler::StateDict& state, std::string_view name) {
  const auto found = std::ranges::find(state, name, &GradScaler::StateDict::value_type::first);
  return found != state.end() ? &found->second : nullptr;
}

double entry_of(const GradScaler::StateDict& state, std::string_view name) {
  const double* entry = find_entry(state, name);
  check_arg(entry != nullptr, "grad_scaler", "the state has no entry `", name,
            "`. Load what state_dict() gave");
  return *entry;
}

std::int64_t whole_entry_of(const GradScaler::StateDict& state, std::string_view name) {
  const double entry = entry_of(state, name);
  check_arg(entry == std::trunc(entry) && std::abs(entry) < 0x1p53, "grad_scaler", "the entry `",
            name, "` must be a whole number: ", entry);
  return static_cast<std::int64_t>(entry);
}

}  // namespace

GradScaler::GradScaler(const LossScaleOptions& options, bool enabled)
    : state_(std::make_shared<LossScaleState>(enabled ? options : LossScaleOptions{})),
      enabled_(enabled) {}

Tensor GradScaler::scale(const Tensor& loss) {
  if (!enabled_) return loss;
  // The scale is not subject to a surrounding region: in 16 bits the product would overflow.
  const NoAutocast outside;
  if (capture_hook() != nullptr) return scale_captured(loss);
  if (!used_.has_value()) used_ = state_->scale();
  return loss.astype(DType::kF32) * *used_;
}

// A captured step reads the scale from a tensor, which every run sets.
Tensor GradScaler::scale_captured(const Tensor& loss) {
  if (!factor_.defined() || factor_.device() != loss.device()) {
    factor_ = ones({}, DType::kF32, Format::kContiguous, loss.device());
  }
  const auto put_scale = [this, factor = factor_](std::span<const Tensor>) {
    if (!used_.has_value()) used_ = state_->scale();
    fill(factor, *used_);
    return true;
  };
  do_host_work("grad_scaler.scale", {}, {}, put_scale, HostWorkTime::kCanGoAhead);
  return loss.astype(DType::kF32) * factor_;
}

std::vector<Tensor> GradScaler::scale(std::span<const Tensor> losses) {
  std::vector<Tensor> result;
  result.reserve(losses.size());
  for (const Tensor& loss : losses) result.push_back(scale(loss));
  return result;
}

std::uint64_t GradScaler::mode() const {
  const bool counts = statistics_ != nullptr && statistics_->is_due();
  return (enabled_ ? kScales : 0) | (checks_gradients() ? kChecks : 0) | (counts ? kCounts : 0);
}

void GradScaler::count_gradients(std::span<const Tensor> params) const {
  if (statistics_ == nullptr || !statistics_->is_due()) return;
  statistics_->count(params, 1 / scale_used());
}

std::optional<std::size_t> GradScaler::check_gradients(std::span<const Tensor> params,
                                                       double factor) const {
  // In iterations that are counted, counting serves as the check.
  const bool counts = statistics_ != nullptr && statistics_->is_due();
  std::optional<std::size_t> bad;
  if (counts) bad = statistics_->count(params, 1 / *used_);
  if (factor != 1) {
    bad = optim::unscale_grads(params, factor);
  } else if (checks_ && !counts) {
    bad = optim::first_nonfinite_grad(params);
  }
  return checks_ ? bad : std::nullopt;
}

void GradScaler::show_unscaled(std::span<const Tensor> params) const {
  if (statistics_ != nullptr && statistics_->is_due()) statistics_->count(params, 1);
}

GradScaler::Entry* GradScaler::find(const optim::Optimizer& optimizer) {
  const auto found = std::ranges::find(entries_, &optimizer, &Entry::optimizer);
  return found != entries_.end() ? &*found : nullptr;
}

void GradScaler::check_scaled() const {
  check_arg(used_.has_value(), "grad_scaler",
            "gradients cannot be unscaled before scale() was called in this iteration. Use "
            "scaler.scale(loss).backward(). After unscale() or backward() of the scaler, call the "
            "optimizer's own step()");
}

void GradScaler::check_not_unscaled(std::span<const Tensor> tensors) const {
  if (unscaled_.empty()) return;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    check_arg(std::ranges::find(unscaled_, tensors[i].impl()) == unscaled_.end(), "grad_scaler",
              "the gradient of tensor ", i, " (", tensors[i],
              ") was already unscaled since the last update(). After unscale() or backward() call "
              "the optimizer's own step()");
  }
}

void GradScaler::check_not_unscaled(const Entry* entry) {
  check_arg(entry == nullptr || entry->stage != Stage::kUnscaled, "grad_scaler",
            "unscale_() was already called on this optimizer since the last update(). Call it once "
            "per iteration; clipping at max_grad_norm already unscales them");
}

void GradScaler::unscale_(optim::Optimizer& optimizer) {
  const auto again = [this, &optimizer, count = optimizer.params().size()] {
    optimizer.check_captured(count);
    unscale_(optimizer);
  };
  if (note_if_captured("grad_scaler.unscale_", optimizer.params(), again)) return;
  if (!enabled_) return show_unscaled(optimizer.params());
  check_scaled();
  const Entry* entry = find(optimizer);
  check_not_unscaled(entry);
  check_arg(entry == nullptr, "grad_scaler",
            "unscale_() was called after step(). Unscale first, or call update()");
  check_not_unscaled(optimizer.params());
  check_f32_gradients(optimizer.params());
  entries_.push_back({&optimizer, Stage::kUnscaled, has_gradients(optimizer.params()), 1,
                      check_gradients(optimizer.params(), 1 / *used_)});
}

GradScaler::Entry& GradScaler::checked(optim::Optimizer& optimizer) {
  Entry* known = find(optimizer);
  check_not_stepped(known);
  if (known != nullptr) return *known;
  check_not_unscaled(optimizer.params());
  // A scale of at least 1 makes gradients larger, so finite scaled gradients are finite when
  // unscaled. The check then only reads, and the optimizer's pass divides.
  const bool fused = *used_ >= 1;
  const double inverse = 1 / *used_;
  if (!fused) check_f32_gradients(optimizer.params());
  entries_.push_back({&optimizer, Stage::kUnscaled, has_gradients(optimizer.params()),
                      fused ? inverse : 1,
                      check_gradients(optimizer.params(), fused ? 1 : inverse)});
  return entries_.back();
}

void GradScaler::check_not_stepped(const Entry* entry) const {
  check_arg(entry == nullptr || entry->stage != Stage::kStepped, "grad_scaler",
            "step() was already called for this optimizer since the last update(). Call update() "
            "after each iteration");
}

// The result of a step of the entry's optimizer, which is about to run or has run.
StepResult GradScaler::settle(Entry& entry, bool skip) const {
  entry.stage = Stage::kStepped;
  const StepResult result{.stepped = entry.steps(skip),
                          .found_inf = entry.first_bad.has_value(),
                          .nothing_to_do = !entry.has_gradients,
                          .scale_used = *used_,
                          .skipped_in_a_row = skip ? skipped_in_a_row_ + 1 : 0,
                          .first_bad = entry.first_bad};
  if (result.nothing_to_do) {
    logging::warn_once(
        "[grad_scaler] no parameter of the optimizer has a gradient, so nothing was updated. Give "
        "it the parameters that the loss was computed from");
  }
  if (result.found_inf) {
    logging::write(logging::Topic::kAmp, "step skipped: the gradient of parameter ",
                   *entry.first_bad, " is not finite at scale ", *used_);
  }
  return result;
}

StepResult GradScaler::apply(optim::Optimizer& optimizer, Entry& entry, bool skip) const {
  // This comes first: if it throws, the step does not count and can be called again.
  if (entry.steps(skip)) optimizer.step(entry.inv_scale);
  return settle(entry, skip);
}

StepResult GradScaler::step(optim::Optimizer& optimizer) {
  // A step that cannot be skipped is left to the optimizer alone, which can then follow each
  // gradient.
  const bool is_plain = !enabled_ && statistics_ == nullptr;
  if (is_plain && captures_by_leaf()) return optimizer.step(), StepResult{};
  if (queue_steps({{.optimizer = &optimizer}}, nullptr)) return {};
  const auto again = [this, &optimizer, count = optimizer.params().size()] {
    optimizer.check_captured(count);
    step(optimizer);
  };
  if (note_if_captured("grad_scaler.step", optimizer.params(), again)) return {};
  if (!enabled_) {
    show_unscaled(optimizer.params());
    const bool any = has_gradients(optimizer.params());
    optimizer.step();
    return {.stepped = any, .nothing_to_do = !any, .first_bad = std::nullopt};
  }
  check_scaled();
  Entry& entry = checked(optimizer);
  return apply(optimizer, entry, entry.first_bad.has_value());
}

std::vector<StepResult> GradScaler::step_together(std::span<optim::Optimizer* const> optimizers) {
  std::vector<StepResult> results;
  bool skip = false;
  if (enabled_) {
    check_arg(
        capture_hook() == nullptr, "grad_scaler",
        "step_together() cannot be captured. Add the optimizers to a graph::Graph, which steps "
        "them together");
    check_scaled();
    for (optim::Optimizer* optimizer : optimizers)
      skip |= checked(*optimizer).first_bad.has_value();
  }
  for (optim::Optimizer* optimizer : optimizers) {
    results.push_back(enabled_ ? apply(*optimizer, checked(*optimizer), skip) : step(*optimizer));
  }
  return results;
}

void GradScaler::set_growth_interval(std::int64_t interval) {
  if (checks_gradients() || !enabled_) return state_->set_growth_interval(interval);
  check_unchecked_growth("grad_scaler", interval);
}

bool GradScaler::has_checked() const { return !entries_.empty() || tensors_.checked; }

GradScaler::Found GradScaler::end_iteration() {
  Found found = tensors_;
  for (const Entry& entry : entries_) {
    found.gradients |= entry.has_gradients;
    found.overflow |= entry.first_bad.has_value();
  }
  entries_.clear();
  unscaled_.clear();
  tensors_ = {};
  used_.reset();
  return found;
}

void GradScaler::count_skips(const Found& found) {
  if (found.gradients) skipped_in_a_row_ = found.overflow ? skipped_in_a_row_ + 1 : 0;
}

void GradScaler::update() {
  if (!enabled_) return;
  if (note_if_captured("grad_scaler.update", {}, [this] { update(); })) return;
  check_arg(has_checked(), "grad_scaler",
            "no gradients were checked since the last update(). Call step() or unscale_() first");
  const Found found = end_iteration();
  if (!found.gradients) return;
  count_skips(found);
  state_->update(found.overflow);
  if (checks_) warn_of_skips(skipped_in_a_row_, state_->scale(), "a gradient is not finite");
}

void GradScaler::update(double new_scale) {
  if (!enabled_) return;
  const auto again = [this, new_scale] { update(new_scale); };
  if (note_if_captured("grad_scaler.update", {}, again)) return;
  check_arg(
      !used_.has_value() || has_checked(), "grad_scaler",
      "the scale cannot change between scale() and step(): gradients of this iteration carry ",
      *used_, ". Call step() first, or discard() and drop the gradients");
  state_->set_scale(new_scale);
  count_skips(end_iteration());
}

void GradScaler::discard() {
  if (note_if_captured("grad_scaler.discard", {}, [this] { end_iteration(); })) return;
  end_iteration();
}

void GradScaler::begin_again(double scale) {
  check_arg(!used_.has_value(), "grad_scaler",
            "an iteration has begun already. End it by update() or discard()");
  used_ = scale;
}

std::optional<std::size_t> GradScaler::unscale(std::span<const Tensor> tensors) {
  if (!enabled_) return std::nullopt;
  check_not_unscaled(tensors);
  check_f32_gradients(tensors);
  if (!used_.has_value()) used_ = state_->scale();
  tensors_.checked = true;
  tensors_.gradients |= has_gradients(tensors);
  const std::optional<std::size_t> bad = check_gradients(tensors, 1 / *used_);
  for (const Tensor& tensor : tensors) {
    unscaled_.push_back(tensor.impl());
    if (bad.has_value()) tensor.clear_grad();
  }
  tensors_.overflow |= bad.has_value();
  return bad;
}

GradScaler::StateDict GradScaler::state_dict() const {
  if (!enabled_) return {};
  return {{kScale, state_->scale()},
          {kGrowthFactor, get_growth_factor()},
          {kBackoffFactor, get_backoff_factor()},
          {kGrowthInterval, static_cast<double>(get_growth_interval())},
          {kGrowthTracker, static_cast<double>(state_->growth_tracker())},
          {kHysteresisLeft, static_cast<double>(state_->hysteresis_left())},
          {kSkippedInARow, static_cast<double>(skipped_in_a_row_)}};
}

void GradScaler::load_state_dict(const StateDict& state) {
  if (!enabled_) return;
  check_arg(!state.empty(), "grad_scaler",
            "the state is empty, as a disabled scaler saves it. Disable this scaler, too, or do "
            "not load it");
  check_arg(!used_.has_value(), "grad_scaler",
            "a state cannot be loaded between scale() and update(). Call update() first");
  for (const auto& [name, value] : state) {
    check_arg(std::ranges::find(kKeys, name) != std::end(kKeys), "grad_scaler",
              "the state has an unknown entry `", name, "`. Load what state_dict() gave");
  }
  if (!checks_) {
    check_unchecked_growth("grad_scaler", whole_entry_of(state, kGrowthInterval));
  }
  LossScaleState loaded = *state_;
  loaded.set_growth_factor(entry_of(state, kGrowthFactor));
  loaded.set_backoff_factor(entry_of(state, kBackoffFactor));
  loaded.set_growth_interval(whole_entry_of(state, kGrowthInterval));
  const bool has_hysteresis = find_entry(state, kHysteresisLeft) != nullptr;
  loaded.restore(
      entry_of(state, kScale), whole_entry_of(state, kGrowthTracker),
      has_hysteresis ? whole_entry_of(state, kHysteresisLeft) : state_->options().hysteresis);
  const bool has_skipped = find_entry(state, kSkippedInARow) != nullptr;
  const std::int64_t skipped = has_skipped ? whole_entry_of(state, kSkippedInARow) : 0;
  check_arg(skipped >= 0, "grad_scaler", "the state's `", kSkippedInARow,
            "` must not be negative: ", skipped);
  *state_ = loaded;
  skipped_in_a_row_ = skipped;
}

}  // namespace mezzo::amp
