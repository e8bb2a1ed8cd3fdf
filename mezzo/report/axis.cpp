#include "mezzo/report/axis.h"

#include <algorithm>
#include <cmath>

#include "mezzo/core/error.h"
#include "mezzo/report/text.h"

namespace mezzo::report {
namespace {

// The smallest of 1, 2, 5, 10, 20, ... times a power of ten that gives about `count` steps.
double round_step(double range, int count) {
  const double rough = range / count;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= 0.8 * rough) return factor * power;
  }
  return 10 * power;
}

constexpr int kMostDigits = 12;  // after the point

int digits_of_step(double step) {
  return std::max(static_cast<int>(-std::floor(std::log10(step) + 1e-9)), 0);
}

}  // namespace

Axis::Axis(AxisKind kind, double low, double high, double from, double to)
    : kind_(kind), low_(0), high_(1), from_(from), to_(to) {
  if (has(low) && has(high)) {
    low_ = position_of(std::min(low, high));
    high_ = position_of(std::max(low, high));
  }
  double margin = (high_ - low_) * 0.03;
  if (high_ - low_ <= 1e-9 * std::abs(high_)) {
    // A single value: a twentieth to either side keeps its leading digits on the axis.
    margin = kind == AxisKind::kLinear && high_ != 0 ? std::abs(high_) / 20 : 0.5;
  }
  low_ -= margin;
  high_ += margin;
}

bool Axis::has(double value) const {
  return std::isfinite(value) && (kind_ == AxisKind::kLinear || value > 0);
}

double Axis::position_of(double value) const {
  switch (kind_) {
    case AxisKind::kLinear: return value;
    case AxisKind::kLog10: return std::log10(value);
    case AxisKind::kLog2: return std::log2(value);
  }
  return value;
}

double Axis::place(double value) const {
  return from_ + (to_ - from_) * (position_of(value) - low_) / (high_ - low_);
}

std::vector<Tick> Axis::ticks(int count, double least_step) const {
  switch (kind_) {
    case AxisKind::kLinear: return linear_ticks(count, least_step);
    case AxisKind::kLog10: return log10_ticks(count);
    case AxisKind::kLog2: return log2_ticks(count);
  }
  return {};
}

std::vector<Tick> Axis::linear_ticks(int count, double least_step) const {
  const double step = std::max(least_step, round_step(high_ - low_, count));
  std::vector<Tick> result;
  // Multiples are computed by counting, since adding up a step repeatedly drifts.
  const double first = std::ceil(low_ / step);
  for (int i = 0; (first + i) * step <= high_ && i <= 2 * count; ++i) {
    const double value = (first + i) * step;
    const bool is_short = std::abs(value) < 1e6 && digits_of_step(step) <= kMostDigits;
    result.push_back({value, is_short ? format_fixed(value == 0 ? 0 : value, digits_of_step(step))
                                      : format_number(value, 6)});
  }
  return result;
}

std::vector<Tick> Axis::log10_ticks(int count) const {
  const bool is_narrow = high_ - low_ <= 2.5;
  const int every = std::max(1, static_cast<int>(std::ceil((high_ - low_) / count)));
  std::vector<Tick> result;
  int decade = static_cast<int>(std::floor(low_ / every)) * every;
  for (; decade <= high_; decade += every) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double value = factor * std::pow(10, decade);
      const double position = std::log10(value);
      if ((factor != 1 && !is_narrow) || position < low_ || position > high_) continue;
      result.push_back({value, format_number(value, 3)});
    }
  }
  return result;
}

std::vector<Tick> Axis::log2_ticks(int count) const {
  const int every = std::max(1, static_cast<int>(std::ceil((high_ - low_) / count)));
  std::vector<Tick> result;
  for (int exponent = static_cast<int>(std::ceil(low_)); exponent <= high_; exponent += every) {
    result.push_back({std::exp2(exponent), power_of_two(exponent)});
  }
  return result;
}

}  // namespace mezzo::report
