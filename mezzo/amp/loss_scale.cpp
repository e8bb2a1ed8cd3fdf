#include "mezzo/amp/loss_scale.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <string>
#include <string_view>

#include "mezzo/core/log.h"
#include "mezzo/ops/dispatcher/capture_hook.h"

namespace mezzo::amp {

namespace {

struct Preset {
  std::string_view name;
  LossScaleOptions options;
};

// Each preset follows the framework's own sources, with the defaults that a user gets. The floor is
// always at least kNoFloor and the ceiling at most kNoCeiling.
constexpr Preset kPresets[] = {
    // mindspore.amp.DynamicLossScaleManager. It has no ceiling. After 1000 consecutive overflows
    // its host path throws; ours counts them in StepResult::skipped_in_a_row.
    {"mindspore", {.init_scale = 0x1p24}},
    // megengine.amp.GradScaler: starts at 2^4, where the others start at 2^15 or more. It has
    // neither floor nor ceiling. There a growth_interval of 0 makes the scale static and disables
    // the check for overflow; here it only means that the scale never grows.
    {"megengine", {.init_scale = 16, .min_scale = kNoFloor}},
    // oneflow.amp.GradScaler, for graphs: clamps at FLT_MAX and at 1.
    {"oneflow", {.init_scale = 65536, .at_ceiling = AtCeiling::kClamp}},
    // torch.amp.GradScaler: the scale is held if the product is not finite. Its scale may fall to
    // 0, ours to kNoFloor.
    {"pytorch", {.init_scale = 65536, .min_scale = kNoFloor}},
    // apex.amp's dynamic scaler: min_loss_scale None, max_loss_scale 2^24, clamped.
    {"apex",
     {.init_scale = 65536,
      .min_scale = kNoFloor,
      .max_scale = 0x1p24,
      .at_ceiling = AtCeiling::kClamp}},
    // tf.mixed_precision's DynamicLossScale: assigns a grown scale only if it is finite. (Keras 3
    // has dropped the floor.)
    {"tensorflow", {.init_scale = 32768}},
    // DeepSpeed's configuration: initial_scale_power 16, hysteresis 2, consecutive_hysteresis
    // false; throws when it cannot go below min_loss_scale. (The class alone starts at 2^32 with a
    // hysteresis of 1.)
    {"deepspeed",
     {.init_scale = 65536,
      .growth_interval = 1000,
      .hysteresis = 2,
      .refill = Refill::kGrowth,
      .at_floor = AtFloor::kThrow}},
    // Megatron-LM's DynamicGradScaler with the defaults of OptimizerConfig. The hysteresis counts
    // overflows since the last growth, not in a row.
    {"megatron",
     {.init_scale = 0x1p32, .growth_interval = 1000, .hysteresis = 2, .refill = Refill::kGrowth}},
};

constexpr auto kPresetNames = [] {
  std::array<std::string_view, std::size(kPresets)> names;
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = kPresets[i].name;
  return names;
}();

template <class... Parts>
void check(bool ok, const Parts&... parts) {
  check_arg(ok, "loss_scale", parts...);
}

void check_not_captured(std::string_view what) {
  check(capture_hook() == nullptr, what,
        " that is set within a captured step would be set at capture, and in no run. Set it "
        "between runs");
}

void check_growth_factor(double factor) {
  check(std::isfinite(factor) && factor > 1, "growth_factor must be above 1 and finite: ", factor);
}

void check_backoff_factor(double factor) {
  check(factor > 0 && factor < 1, "backoff_factor must be between 0 and 1: ", factor);
}

void check_growth_interval(std::int64_t interval) {
  check(interval >= 0, "growth_interval must not be negative: ", interval);
}

// The scale as the f32 number that multiplies losses.
double in_f32(const char* name, double scale) {
  check(scale >= kNoFloor && scale <= kNoCeiling, name,
        " must be positive, and finite in f32 like its reciprocal: ", scale);
  return static_cast<float>(scale);
}

}  // namespace

LossScaleOptions loss_scale_preset(std::string_view name) {
  const auto* found = std::ranges::find(kPresets, name, &Preset::name);
  if (found != std::end(kPresets)) return found->options;
  std::string known;
  for (const std::string_view other : kPresetNames) known += concat(" ", other);
  fail("loss_scale", "there is no preset `", name, "`. Known presets are", known);
}

std::span<const std::string_view> loss_scale_preset_names() { return kPresetNames; }

LossScaleOptions fixed_loss_scale(double scale) {
  return {.init_scale = scale, .growth_interval = 0, .min_scale = scale, .is_fixed = true};
}

void warn_of_skips(std::int64_t skipped_in_a_row, double scale, std::string_view what) {
  if (skipped_in_a_row != kManySkips) return;
  logging::warn_once(
      concat("[loss_scale] ", kManySkips, " steps were skipped in a row: ", what,
             ", and the scale is ", scale,
             ". Nothing is being learnt. If the scale is large and does not change, make it "
             "smaller; else check the learning rate, the data and the loss"));
}

void check_unchecked_growth(const char* op, std::int64_t growth_interval) {
  check_arg(growth_interval == 0, op,
            "a scale without overflow checks would only grow: ", "growth_interval ",
            growth_interval, ". Set it to 0, or check for overflow");
}

LossScaleState::LossScaleState(const LossScaleOptions& options)
    : options_(options),
      scale_(in_f32("init_scale", options.init_scale)),
      hysteresis_left_(options.hysteresis) {
  check_growth_factor(options.growth_factor);
  check_backoff_factor(options.backoff_factor);
  check_growth_interval(options.growth_interval);
  check(options.min_scale >= 0 && options.min_scale <= options.init_scale, "min_scale ",
        options.min_scale, " must lie between 0 and init_scale ", options.init_scale);
  check(options.max_scale >= options.init_scale, "max_scale ", options.max_scale,
        " must not be below init_scale ", options.init_scale);
  check(options.max_scale <= kNoCeiling, "max_scale ", options.max_scale,
        " is not finite in f32, in which the scale is applied. Choose a smaller one");
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
  if (options_.is_fixed) return;
  if (hysteresis_left_ > 0) --hysteresis_left_;
  if (hysteresis_left_ > 0) return;
  const double floor = std::max(options_.min_scale, kNoFloor);
  if (scale_ <= floor) on_overflow_at_floor();
  // A scale that was set below the floor stays unchanged.
  const double reduced = std::max(scale_ * options_.backoff_factor, floor);
  scale_ = static_cast<float>(std::min(reduced, scale_));
  if (options_.refill == Refill::kGoodStepAndBackoff) hysteresis_left_ = options_.hysteresis;
}

void LossScaleState::on_overflow_at_floor() const {
  const std::string text = concat("overflow at the smallest scale allowed: ", scale_,
                                  ". The gradients are not finite for another reason: check the "
                                  "learning rate, the data and the loss");
  if (options_.at_floor == AtFloor::kThrow) fail<Error>("loss_scale", text);
  logging::warn_once(concat("[loss_scale] ", text));
}

void LossScaleState::on_good_step() {
  if (options_.refill != Refill::kGrowth) hysteresis_left_ = options_.hysteresis;
  if (options_.growth_interval == 0 || ++growth_tracker_ < options_.growth_interval) return;
  growth_tracker_ = 0;
  if (options_.refill == Refill::kGrowth) hysteresis_left_ = options_.hysteresis;
  const double grown = scale_ * options_.growth_factor;
  if (grown <= options_.max_scale) {
    scale_ = static_cast<float>(grown);
  } else if (options_.at_ceiling == AtCeiling::kClamp) {
    scale_ = static_cast<float>(options_.max_scale);
  }
}

void LossScaleState::restore(double scale, std::int64_t growth_tracker,
                             std::int64_t hysteresis_left) {
  check_arg(growth_tracker >= 0 && hysteresis_left >= 0, "loss_scale",
            "not a saved state: growth_tracker ", growth_tracker, ", hysteresis_left ",
            hysteresis_left, ". Load one that was saved");
  check_arg(hysteresis_left <= options_.hysteresis, "loss_scale", "the state was saved with ",
            hysteresis_left, " overflows left until the scale is reduced, and a hysteresis of ",
            options_.hysteresis, " allows fewer. Make the scaler with the same options");
  set_scale(scale);
  growth_tracker_ = growth_tracker;
  hysteresis_left_ = hysteresis_left;
}

void LossScaleState::set_scale(double scale) {
  check_not_captured("a scale");
  scale_ = in_f32("the scale", scale);
}

void LossScaleState::set_growth_factor(double factor) {
  check_not_captured("a growth factor");
  check_growth_factor(factor);
  options_.growth_factor = factor;
}

void LossScaleState::set_backoff_factor(double factor) {
  check_not_captured("a backoff factor");
  check_backoff_factor(factor);
  options_.backoff_factor = factor;
}

void LossScaleState::set_growth_interval(std::int64_t interval) {
  check_not_captured("a growth interval");
  check_growth_interval(interval);
  options_.growth_interval = interval;
}

}  // namespace mezzo::amp
