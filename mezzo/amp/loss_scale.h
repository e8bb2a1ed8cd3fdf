// The state machine of dynamic loss scaling.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

namespace mezzo::amp {

// When the hysteresis is refilled.
enum class Refill : std::uint8_t {
  kGrowth,              // only when the scale grows (Megatron, DeepSpeed)
  kGoodStep,            // on every step without overflow (DeepSpeed, consecutive_hysteresis)
  kGoodStepAndBackoff,  // also after each reduction (Paddle)
};

// What happens when growth would exceed the ceiling.
enum class AtCeiling : std::uint8_t { kHold, kClamp };

// What happens when a reduction would pass the floor: the scale stays there with one warning, or an
// overflow at the floor throws.
enum class AtFloor : std::uint8_t { kHold, kThrow };

// No floor: the smallest scale whose reciprocal is finite in f32. In frameworks without a floor a
// scale can reach 0, from where no gradient returns.
inline constexpr double kNoFloor = std::numeric_limits<float>::min();
// No ceiling: the largest f32. In frameworks without a ceiling a scale can reach infinity.
inline constexpr double kNoCeiling = std::numeric_limits<float>::max();

// The defaults are PyTorch's, with a floor of 1: below 1 a scale hides gradients instead of saving
// them, and the user wonders why nothing is learnt (pytorch#99640).
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
  bool is_fixed = false;  // overflows never reduce the scale, whatever value is set or loaded
};

// The loss scaling of other frameworks by name, with their defaults; differences are noted beside
// the values in loss_scale.cpp. Throws ArgumentError for other names, listing the valid ones.
LossScaleOptions loss_scale_preset(std::string_view name);
// The names of presets: mindspore, megengine, oneflow, pytorch, apex, tensorflow, deepspeed,
// megatron.
std::span<const std::string_view> loss_scale_preset_names();

// A fixed scale, which stays fixed if another value is loaded or set later.
LossScaleOptions fixed_loss_scale(double scale);

// Throws ArgumentError unless the interval is 0. A scale whose gradients are not checked must not
// grow: nothing would stop it.
void check_unchecked_growth(const char* op, std::int64_t growth_interval);

// The number of consecutive skipped steps that causes a warning: no search for a scale takes that
// long, not even from 2^32 down. MindSpore's host path throws after 1000.
inline constexpr std::int64_t kManySkips = 100;
// Warns if kManySkips steps have just been skipped, once for the same values. `what` describes what
// was wrong with the last one: `its loss is nan`.
void warn_of_skips(std::int64_t skipped_in_a_row, double scale, std::string_view what);

// The loss scale as a function of the history of steps. An overflow multiplies it by the backoff
// factor and restarts the count; growth_interval steps without overflow multiply it by the growth
// factor. It is always an f32 number, because it is applied in f32.
class LossScaleState {
 public:
  // Throws ArgumentError for invalid options, naming the first one.
  explicit LossScaleState(const LossScaleOptions& options);

  double scale() const { return scale_; }
  // The number of steps without overflow since the last change or overflow.
  std::int64_t growth_tracker() const { return growth_tracker_; }
  std::int64_t hysteresis_left() const { return hysteresis_left_; }
  const LossScaleOptions& options() const { return options_; }

  // Records one step. Throws Error at the floor if the options say so; the scale then stays.
  void update(bool overflow);

  // restore() and the functions after it throw ArgumentError during a capture, whose runs would not
  // call them.
  //
  // restore() continues from a saved state. It also throws ArgumentError for values that no history
  // leads to.
  void restore(double scale, std::int64_t growth_tracker, std::int64_t hysteresis_left);
  // Sets the scale, even beyond floor and ceiling, and leaves the counters unchanged.
  void set_scale(double scale);
  // Change the rules from here on. They also throw ArgumentError like the constructor.
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
