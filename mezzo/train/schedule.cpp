#include "mezzo/train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace mezzo::train {
namespace {

constexpr ScheduleKind kAllKinds[] = {ScheduleKind::kConstant, ScheduleKind::kSteps,
                                      ScheduleKind::kPoly, ScheduleKind::kLinear,
                                      ScheduleKind::kCosine};

double steps_factor(double progress) {
  if (progress < 0.3) return 1;
  if (progress < 0.6) return 0.1;
  return progress < 0.8 ? 0.01 : 0.001;
}

}  // namespace

const char* name_of(ScheduleKind kind) {
  switch (kind) {
    case ScheduleKind::kConstant: return "constant";
    case ScheduleKind::kSteps: return "steps";
    case ScheduleKind::kPoly: return "poly";
    case ScheduleKind::kLinear: return "linear";
    case ScheduleKind::kCosine: return "cosine";
  }
  return "?";
}

std::optional<ScheduleKind> parse_schedule(std::string_view name) {
  for (const ScheduleKind kind : kAllKinds) {
    if (name == name_of(kind)) return kind;
  }
  return std::nullopt;
}

double Schedule::at(std::int64_t step) const {
  step = std::clamp<std::int64_t>(step, 0, total_steps - 1);
  if (step < warmup_steps) {
    return lr * static_cast<double>(step + 1) / static_cast<double>(warmup_steps);
  }
  const auto left = static_cast<double>(std::max<std::int64_t>(total_steps - warmup_steps, 1));
  const double progress = static_cast<double>(step - warmup_steps) / left;
  switch (kind) {
    case ScheduleKind::kConstant: return lr;
    case ScheduleKind::kSteps:
      return lr * steps_factor(static_cast<double>(step) / static_cast<double>(total_steps));
    case ScheduleKind::kPoly: return lr * (1 - progress) * (1 - progress);
    case ScheduleKind::kLinear: return lr + (end_lr - lr) * progress;
    case ScheduleKind::kCosine:
      return end_lr + (lr - end_lr) * (1 + std::cos(std::numbers::pi * progress)) / 2;
  }
  return lr;
}

}  // namespace mezzo::train
