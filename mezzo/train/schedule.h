// Learning rates that change from step to step.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace mezzo::train {

enum class ScheduleKind : std::uint8_t {
  kConstant,  // lr, after the warm-up
  kSteps,     // lr * 1, 0.1, 0.01, 0.001, changing at 30, 60 and 80 % of all steps
  kPoly,      // lr * (1 - progress)^2
  kLinear,    // straight down from lr to end_lr
  kCosine,    // half a cosine from lr to end_lr (Loshchilov and Hutter, "SGDR", ICLR 2017)
};

const char* name_of(ScheduleKind kind);
std::optional<ScheduleKind> parse_schedule(std::string_view name);

// A schedule over total_steps. During the first warmup_steps the rate climbs in a straight line
// from nearly 0 to lr (Goyal et al., "Accurate, large minibatch SGD", 2017); `progress` is the part
// done of the steps after it.
struct Schedule {
  ScheduleKind kind = ScheduleKind::kConstant;
  double lr = 0.01;
  double end_lr = 0;
  std::int64_t total_steps = 1;
  std::int64_t warmup_steps = 0;

  // The rate of step 0, 1, ...; the last one's beyond the end.
  double at(std::int64_t step) const;
};

}  // namespace mezzo::train
