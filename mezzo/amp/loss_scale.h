// The state machine of dynamic loss scaling.
#pragma once

#include <cstdint>
#include <limits>

#include "mezzo/core/error.h"

namespace mezzo::amp {

// When exhausted hysteresis is refilled.
enum class Refill : std::uint8_t {
  kGrowth,              // only when the scale grows (Megatron, DeepSpeed)
  kGoodStep,            // on every step without overflow (DeepSpeed, consecutive_hysteresis)
  kGoodStepAndBackoff,  // and after each reduction too (Paddle)
};

// What happens when growth would pass the ceiling.
enum class AtCeiling : std::uint8_t { kHold, kClamp };

// What happens when a reduction would pass the floor.
enum class AtFloor : std::uint8_t { kHold, kThrow };

// The defaults are PyTorch's, with a floor of 1: below 1 a scale hides gradients instead of saving
// them, and the user asks why nothing is learnt (pytorch#99640).
struct LossScaleOptions {
  double init_scale = 65536;  // 2^16
  double growth_factor = 2;
  double backoff_factor = 0.5;
  std::int64_t growth_interval = 2000;  // steps without overflow before the scale grows; 0: never
  double min_scale = 1;
  double max_scale = std::numeric_limits<float>::max();  // the scale is applied in f32
  std::int64_t hysteresis = 1;                           // overflows until the scale is reduced
  Refill refill = Refill::kGrowth;
  AtCeiling at_ceiling = AtCeiling::kHold;
  AtFloor at_floor = AtFloor::kHold;
};

// The scale that follows from a history of steps. An overflow multiplies it by the backoff factor
// and restarts the count; growth_interval steps without overflow multiply it by the growth factor.
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

  // Continues from a saved state. Throws ArgumentError for values that no history leads to.
  void restore(double scale, std::int64_t growth_tracker, std::int64_t hysteresis_left);
  // Sets the scale and leaves the counters as they are.
  void set_scale(double scale);

 private:
  void on_overflow();
  void on_good_step();

  LossScaleOptions options_;
  double scale_;
  std::int64_t growth_tracker_ = 0;
  std::int64_t hysteresis_left_;
};

}  // namespace mezzo::amp
