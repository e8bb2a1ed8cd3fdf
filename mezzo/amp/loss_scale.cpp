#include "mezzo/amp/loss_scale.h"

#include <algorithm>
#include <cmath>

namespace mezzo::amp {

LossScaleState::LossScaleState(const LossScaleOptions& options)
    : options_(options), scale_(options.init_scale), hysteresis_left_(options.hysteresis) {
  const auto check = [](bool ok, const auto&... parts) { check_arg(ok, "loss_scale", parts...); };
  check(std::isfinite(scale_) && scale_ > 0, "init_scale must be positive and finite: ", scale_);
  check(options.growth_factor > 1, "growth_factor must be over 1: ", options.growth_factor);
  check(options.backoff_factor > 0 && options.backoff_factor < 1,
        "backoff_factor must be between 0 and 1: ", options.backoff_factor);
  check(options.growth_interval >= 0,
        "growth_interval must not be negative: ", options.growth_interval);
  check(options.min_scale >= 0 && options.min_scale <= scale_, "min_scale ", options.min_scale,
        " must lie between 0 and init_scale ", scale_);
  check(options.max_scale >= scale_, "max_scale ", options.max_scale,
        " must not be under init_scale ", scale_);
  check(options.hysteresis >= 1, "hysteresis must be at least 1: ", options.hysteresis);
}

void LossScaleState::update(bool overflow) {
  if (overflow) {
    on_overflow();
  } else {
    on_good_step();
  }
}

void LossScaleState::on_overflow() {
  growth_tracker_ = 0;
  if (hysteresis_left_ > 0) --hysteresis_left_;
  if (hysteresis_left_ > 0) return;
  const double reduced = scale_ * options_.backoff_factor;
  if (reduced < options_.min_scale && options_.at_floor == AtFloor::kThrow) {
    fail<Error>("loss_scale", "overflow at the smallest scale allowed: ", options_.min_scale,
                ". The gradients are not finite for another reason: look at the learning rate, the "
                "data and the loss");
  }
  scale_ = std::max(reduced, options_.min_scale);
  if (options_.refill == Refill::kGoodStepAndBackoff) hysteresis_left_ = options_.hysteresis;
}

void LossScaleState::on_good_step() {
  if (options_.refill != Refill::kGrowth) hysteresis_left_ = options_.hysteresis;
  if (options_.growth_interval == 0 || ++growth_tracker_ < options_.growth_interval) return;
  growth_tracker_ = 0;
  if (options_.refill == Refill::kGrowth) hysteresis_left_ = options_.hysteresis;
  const double grown = scale_ * options_.growth_factor;
  if (grown <= options_.max_scale) {
    scale_ = grown;
  } else if (options_.at_ceiling == AtCeiling::kClamp) {
    scale_ = options_.max_scale;
  }
}

void LossScaleState::restore(double scale, std::int64_t growth_tracker,
                             std::int64_t hysteresis_left) {
  check_arg(growth_tracker >= 0 && hysteresis_left >= 0 && hysteresis_left <= options_.hysteresis,
            "loss_scale", "not a saved state: growth_tracker ", growth_tracker,
            ", hysteresis_left ", hysteresis_left);
  set_scale(scale);
  growth_tracker_ = growth_tracker;
  hysteresis_left_ = hysteresis_left;
}

void LossScaleState::set_scale(double scale) {
  check_arg(std::isfinite(scale) && scale > 0, "loss_scale",
            "the scale must be positive and finite: ", scale);
  scale_ = scale;
}

}  // namespace mezzo::amp
