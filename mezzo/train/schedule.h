// Learning rates that change from step to step.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mezzo::train {

// kSteps, kPoly, kLinear and kCosine are the formulas of MindSpore's ResNet-50/CIFAR-10 course, to
// the last digit. `progress` is the completed share of the steps after the warm-up, from 0 to 1.
enum class ScheduleKind : std::uint8_t {
  kConstant,     // lr
  kSteps,        // lr * 1, 0.1, 0.01, 0.001, changing at 30, 60 and 80 % of all steps; no warm-up
  kWarmSteps,    // as kSteps, after a warm-up
  kPoly,         // lr * (1 - progress)^2
  kLinear,       // a straight line from lr to end_lr
  kCosine,       // lr * ((1 - progress) * (1 + cos(0.94 pi step / steps after it)) / 2 + 1e-5)
  kHalfCosine,   // half a cosine from lr to end_lr (Loshchilov and Hutter, "SGDR", ICLR 2017)
  kExponential,  // lr * gamma^n, n the whole epochs after the warm-up
  kPlateau,      // lr, until a ReduceLROnPlateau lowers it
};

const char* name_of(ScheduleKind kind);
std::optional<ScheduleKind> parse_schedule(std::string_view name);
// `constant, steps, ... and plateau`, for messages.
std::string schedule_names();

// A schedule over total_steps. During the first warmup_steps the rate climbs in a straight line
// from init_lr to lr (Goyal et al., "Accurate, large minibatch SGD", 2017), except in kSteps: the
// course's get_lr() reads neither its warmup_epochs nor its lr_init in this mode. The course's poly
// and linear schedules take the first step with init_lr itself. The others have already climbed one
// step by then, so that no step is wasted on a rate of 0.
struct Schedule {
  ScheduleKind kind = ScheduleKind::kConstant;
  double lr = 0.01;
  double init_lr = 0;
  double end_lr = 0;
  double gamma = 0.9;                // for kExponential
  std::int64_t steps_per_epoch = 1;  // for kExponential
  std::int64_t total_steps = 1;
  std::int64_t warmup_steps = 0;

  // The rate of step 0, 1, ...; past the end, that of the last step. Throws ArgumentError unless
  // `step` and warmup_steps are not negative, total_steps and steps_per_epoch are at least 1, and
  // all rates and gamma are finite and not negative.
  double at(std::int64_t step) const;
  // Whether the schedule sets the rate of a step. kPlateau only sets those of the warm-up and of
  // the step after it; then a ReduceLROnPlateau takes over.
  bool sets(std::int64_t step) const {
    return kind != ScheduleKind::kPlateau || step <= warmup_steps;
  }
  // The rates of all steps, as optimizers and Model::fit() take them. Throws like at().
  std::vector<double> values() const;

 private:
  void check() const;
  double rate(std::int64_t step) const;
  double warm_up(std::int64_t step) const;
};

}  // namespace mezzo::train
