// The state machine of dynamic loss scaling.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

namespace mezzo::amp {

// When exhausted hysteresis is refilled.
enum class Refill : std::uint8_t {
  kGrowth,              // only when the scale grows (Megatron, DeepSpeed)
  kGoodStep,            // on every step without overflow (DeepSpeed, consecutive_hysteresis)
  kGoodStepAndBackoff,  // and after each reduction too (Paddle)
};

// What happens when growth would pass the ceiling.
enum class AtCeiling : std::uint8_t { kHold, kClamp };

// What happens when a reduction would pass the floor: the scale stays there, and a warning is given
// once, or an overflow at the floor throws.
enum class AtFloor : std::uint8_t { kHold, kThrow };

// No floor at all: the smallest scale whose reciprocal is finite in f32. What frameworks without a
// floor do below it is to reach 0, from where no gradient returns.
inline constexpr double kNoFloor = std::numeric_limits<float>::min();
// No ceiling: the largest f32. What frameworks without a ceiling do above it is to reach infinity.
inline constexpr double kNoCeiling = std::numeric_limits<float>::max();

// The defaults are PyTorch's, with a floor of 1: below 1 a scale hides gradients instead of saving
// them, and the user asks why nothing is learnt (pytorch#99640).
struct LossScaleOptions {
  double init_scale = 65536;  // 2^16
  double growth_factor = 2;
  double backoff_factor = 0.5;
  std::int64_t growth_interval = 2000;  // steps without overflow before the scale grows; 0: never
  double min_scale = 1;
  double max_scale = kNoCeiling;
  std::int64_t hysteresis = 1;  // overflows until the scale is reduced
  Refill refill = Refill::kGrowth;
  AtCeiling at_ceiling = AtCeiling::kHold;
  AtFloor at_floor = AtFloor::kHold;
  bool is_fixed = false;  // no overflow reduces it, at whatever value it was set or loaded
};

// The loss scaling of other frameworks by name, with their defaults; what we do differently stands
// beside the numbers in loss_scale.cpp. Throws ArgumentError for other names, naming those there
// are.
LossScaleOptions loss_scale_preset(std::string_view name);
// mindspore, megengine, oneflow, pytorch, apex, tensorflow, deepspeed, megatron.
std::span<const std::string_view> loss_scale_preset_names();

// A scale that stays, also at another value that is loaded or set later.
LossScaleOptions fixed_loss_scale(double scale);

// So many steps skipped in a row draw a warning: no search for a scale takes that long, not even
// from 2^32 down. MindSpore's host path throws after 1000.
inline constexpr std::int64_t kManySkips = 100;
// Warns, once for the same numbers, if that many have just been skipped. `what` is what was wrong
// with the last one, in words: `its loss is nan`.
void warn_of_skips(std::int64_t skipped_in_a_row, double scale, std::string_view what);

// The scale that follows from a history of steps. An overflow multiplies it by the backoff factor
// and restarts the count; growth_interval steps without overflow multiply it by the growth factor.
// It is an f32 number at all times, as it is applied in f32.
class LossScaleState {
 public:
  // Throws ArgumentError for options that make no sense, naming the first one.
  explicit LossScaleState(const LossScaleOptions& options);

  double scale() const { return scale_; }
  // Steps without overflow since the last change or overflow.
  std::int64_t growth_tracker() const { return growth_tracker_; }
  std::int64_t hysteresis_left() const { return hysteresis_left_; }
  const LossScaleOptions& options() const { return options_; }

  // One more step. Throws Error at the floor if the options say so; the scale then stays.
  void update(bool overflow);

  // These throw ArgumentError while a step is captured, in whose runs they would not be called.
  // Continues from a saved state. Throws ArgumentError for values that no history leads to, too.
  void restore(double scale, std::int64_t growth_tracker, std::int64_t hysteresis_left);
  // Sets the scale, also beyond floor and ceiling, and leaves the counters as they are.
  void set_scale(double scale);
  // Go on by other rules from here. Throw ArgumentError like the constructor, too.
  void set_growth_factor(double factor);
  void set_backoff_factor(double factor);
  void set_growth_interval(std::int64_t interval);

 private:
  void on_overflow();
  void on_overflow_at_floor() const;
  void on_good_step();

  LossScaleOptions options_;
  double scale_;
  std::int64_t growth_tracker_ = 0;
  std::int64_t hysteresis_left_;
};

}  // namespace mezzo::amp
