#include "mezzo/amp/grad_scaler.h"

#include <algorithm>

#include "mezzo/core/log.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/optim/gradients.h"

namespace mezzo::amp {

GradScaler::GradScaler(const LossScaleOptions& options, bool enabled)
    : state_(options), enabled_(enabled) {}

Tensor GradScaler::scale(const Tensor& loss) {
  if (!enabled_) return loss;
  scaled_ = true;
  return loss.astype(DType::kF32) * state_.scale();
}

GradScaler::Entry* GradScaler::find(const optim::Optimizer& optimizer) {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.optimizer == &optimizer;
  });
  return found != entries_.end() ? &*found : nullptr;
}

GradScaler::Entry& GradScaler::add_entry(const optim::Optimizer& optimizer, Stage stage,
                                         std::optional<std::size_t> first_bad) {
  entries_.push_back({&optimizer, stage, first_bad});
  return entries_.back();
}

void GradScaler::check_scaled() const {
  check_arg(scaled_, "grad_scaler",
            "gradients cannot be unscaled before scale() was called in this iteration. Use "
            "scaler.scale(loss).backward()");
}

void GradScaler::unscale_(optim::Optimizer& optimizer) {
  if (!enabled_) return;
  check_scaled();
  const Entry* entry = find(optimizer);
  check_arg(entry == nullptr || entry->stage != Stage::kUnscaled, "grad_scaler",
            "unscale_() was already called on this optimizer since the last update(). Call it once "
            "per iteration");
  check_arg(entry == nullptr, "grad_scaler",
            "unscale_() is called after step(). Unscale first, or call update()");
  add_entry(optimizer, Stage::kUnscaled, optim::unscale_grads(optimizer.params(), inverse_scale()));
}

StepResult GradScaler::step(optim::Optimizer& optimizer) {
  if (!enabled_) {
    optimizer.step();
    return {};
  }
  check_scaled();
  Entry* entry = find(optimizer);
  check_arg(entry == nullptr || entry->stage != Stage::kStepped, "grad_scaler",
            "step() was already called for this optimizer since the last update(). Call update() "
            "after each iteration");
  double inv_scale = 1;
  if (entry == nullptr) {
    // A scale of at least 1 makes gradients smaller, so finite scaled ones are finite unscaled. The
    // check then only reads, and the optimizer's own pass divides.
    const bool fused = state_.scale() >= 1;
    if (fused) inv_scale = inverse_scale();
    entry = &add_entry(optimizer, Stage::kUnscaled,
                       fused ? optim::first_nonfinite_grad(optimizer.params())
                             : optim::unscale_grads(optimizer.params(), inverse_scale()));
  }
  entry->stage = Stage::kStepped;
  if (!entry->first_bad.has_value()) {
    optimizer.step(inv_scale);
    return {};
  }
  logging::write(logging::Topic::kAmp, "step skipped: the gradient of parameter ",
                 *entry->first_bad, " is not finite at scale ", state_.scale());
  return {.stepped = false, .found_inf = true, .first_bad = entry->first_bad};
}

void GradScaler::update() {
  if (!enabled_) return;
  check_arg(!entries_.empty(), "grad_scaler",
            "no gradients were checked since the last update(). Call step() or unscale_() first");
  const bool overflow = std::any_of(entries_.begin(), entries_.end(),
                                    [](const Entry& entry) { return entry.first_bad.has_value(); });
  entries_.clear();
  scaled_ = false;
  state_.update(overflow);
}

void GradScaler::update(double new_scale) {
  if (!enabled_) return;
  state_.set_scale(new_scale);
  entries_.clear();
  scaled_ = false;
}

}  // namespace mezzo::amp
