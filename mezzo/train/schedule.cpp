#include "mezzo/train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "mezzo/core/error.h"

namespace mezzo::train {
namespace {

constexpr const char* kScheduleOp = "Schedule";

constexpr ScheduleKind kAllKinds[] = {
    ScheduleKind::kConstant,   ScheduleKind::kSteps,       ScheduleKind::kWarmSteps,
    ScheduleKind::kPoly,       ScheduleKind::kLinear,      ScheduleKind::kCosine,
    ScheduleKind::kHalfCosine, ScheduleKind::kExponential, ScheduleKind::kPlateau};

double steps_factor(double progress) {
  if (progress < 0.3) return 1;
  if (progress < 0.6) return 0.1;
  return progress < 0.8 ? 0.01 : 0.001;
}

void check_number(const char* field, double value) {
  check_arg(std::isfinite(value) && value >= 0, kScheduleOp, field,
            " must be finite and not negative: ", value);
}

}  // namespace

const char* name_of(ScheduleKind kind) {
  switch (kind) {
    case ScheduleKind::kConstant: return "constant";
    case ScheduleKind::kSteps: return "steps";
    case ScheduleKind::kWarmSteps: return "warm-steps";
    case ScheduleKind::kPoly: return "poly";
    case ScheduleKind::kLinear: return "linear";
    case ScheduleKind::kCosine: return "cosine";
    case ScheduleKind::kHalfCosine: return "half-cosine";
    case ScheduleKind::kExponential: return "exponential";
    case ScheduleKind::kPlateau: return "plateau";
  }
  return "?";
}

std::optional<ScheduleKind> parse_schedule(std::string_view name) {
  for (const ScheduleKind kind : kAllKinds) {
    if (name == name_of(kind)) return kind;
  }
  return std::nullopt;
}

std::string schedule_names() {
  std::string names;
  for (const ScheduleKind kind : kAllKinds) {
    if (!names.empty()) names += kind == ScheduleKind::kPlateau ? " and " : ", ";
    names += name_of(kind);
  }
  return names;
}

double Schedule::warm_up(std::int64_t step) const {
  const bool from_start = kind == ScheduleKind::kPoly || kind == ScheduleKind::kLinear;
  const auto climbed = static_cast<double>(from_start ? step : step + 1);
  return init_lr + (lr - init_lr) * climbed / static_cast<double>(warmup_steps);
}

void Schedule::check() const {
  check_arg(total_steps >= 1, kScheduleOp, "total_steps must be at least 1: ", total_steps);
  check_arg(steps_per_epoch >= 1, kScheduleOp,
            "steps_per_epoch must be at least 1: ", steps_per_epoch);
  check_arg(warmup_steps >= 0, kScheduleOp, "warmup_steps must not be negative: ", warmup_steps);
  check_number("lr", lr);
  check_number("init_lr", init_lr);
  check_number("end_lr", end_lr);
  check_number("gamma", gamma);
}

double Schedule::at(std::int64_t step) const {
  check();
  check_arg(step >= 0, kScheduleOp, "there is no rate of step ", step, ". Steps count from 0");
  return rate(step);
}

double Schedule::rate(std::int64_t step) const {
  step = std::min(step, total_steps - 1);
  if (step < warmup_steps && kind != ScheduleKind::kSteps) return warm_up(step);
  const std::int64_t after = step - warmup_steps;
  const auto left = static_cast<double>(std::max<std::int64_t>(total_steps - warmup_steps, 1));
  const double progress = static_cast<double>(after) / left;
  switch (kind) {
    case ScheduleKind::kConstant:
    case ScheduleKind::kPlateau: return lr;
    case ScheduleKind::kSteps:
    case ScheduleKind::kWarmSteps:
      return lr * steps_factor(static_cast<double>(step) / static_cast<double>(total_steps));
    case ScheduleKind::kPoly: return lr * (1 - progress) * (1 - progress);
    case ScheduleKind::kLinear: return lr + (end_lr - lr) * progress;
    case ScheduleKind::kCosine: {
      // The course's cosine counts the step from the very beginning, warm-up included.
      const double angle = std::numbers::pi * 2 * 0.47 * static_cast<double>(step) / left;
      return lr * ((1 - progress) * 0.5 * (1 + std::cos(angle)) + 0.00001);
    }
    case ScheduleKind::kHalfCosine:
      return end_lr + (lr - end_lr) * (1 + std::cos(std::numbers::pi * progress)) / 2;
    case ScheduleKind::kExponential: {
      const std::int64_t whole_epochs = after / steps_per_epoch;
      return lr * std::pow(gamma, static_cast<double>(whole_epochs));
    }
  }
  return lr;
}

std::vector<double> Schedule::values() const {
  check();
  constexpr std::int64_t kMostValues = std::int64_t{1} << 32;
  check_arg(total_steps <= kMostValues, kScheduleOp, "an array of ", total_steps,
            " rates is larger than ", kMostValues, ". Call at() for single rates");
  std::vector<double> rates;
  rates.reserve(static_cast<std::size_t>(total_steps));
  for (std::int64_t step = 0; step < total_steps; ++step) rates.push_back(rate(step));
  return rates;
}

}  // namespace mezzo::train
