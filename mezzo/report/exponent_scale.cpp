#include "mezzo/report/exponent_scale.h"

#include <algorithm>

#include "mezzo/core/error.h"
#include "mezzo/report/text.h"

namespace mezzo::report {

using amp::GradientHistogram;

const char* class_of(Fate fate) {
  switch (fate) {
    case Fate::kLost: return "lost";
    case Fate::kSubnormal: return "weak";
    case Fate::kKept: return "kept";
    case Fate::kInfinite: return "over";
  }
  return "";
}

Fate fate_in_f16(int exponent) {
  if (exponent < kF16Subnormal) return Fate::kLost;
  if (exponent < kF16Normal) return Fate::kSubnormal;
  return exponent < kF16Infinite ? Fate::kKept : Fate::kInfinite;
}

double ExponentScale::place(int exponent) const {
  return left + cell() * (std::clamp(exponent, low, high) - low);
}

ExponentScale scale_for(std::span<const GradientHistogram> histograms, double left, double right) {
  ExponentScale scale{kF16Subnormal - 2, kF16Infinite + 2, left, right};
  for (const GradientHistogram& histogram : histograms) {
    scale.low = std::min(scale.low, histogram.quantile(0).value_or(scale.low));
    scale.high = std::max(scale.high, histogram.quantile(1).value_or(scale.high - 1) + 1);
  }
  return scale;
}

std::vector<TypeRange> type_ranges(int shift) {
  std::vector<TypeRange> ranges{{"bf16", {-126, -126, 128}},
                                {"f16", {kF16Subnormal, kF16Normal, kF16Infinite}}};
  if (shift != 0) {
    ranges.push_back({"f16 at " + power_of_two(shift),
                      {kF16Subnormal - shift, kF16Normal - shift, kF16Infinite - shift}});
  }
  return ranges;
}

std::vector<int> limits_within(const ExponentScale& scale, int shift) {
  std::vector<int> limits;
  for (const int exponent : {kF16Subnormal - shift, kF16Infinite - shift}) {
    if (exponent > scale.low && exponent < scale.high) limits.push_back(exponent);
  }
  return limits;
}

std::vector<int> exponents_to_write(const ExponentScale& scale) {
  const int every = scale.high - scale.low > 60 ? 10 : 5;
  std::vector<int> exponents;
  for (int exponent = scale.low; exponent < scale.high; ++exponent) {
    // The first position is reserved for the word beside the axis.
    if (exponent % every != 0 || scale.place(exponent) < scale.left + 10) continue;
    exponents.push_back(exponent);
  }
  return exponents;
}

std::string exponent_text(int exponent) {
  return exponent < 0 ? concat("−", -exponent) : std::to_string(exponent);
}

std::vector<double> parts_of(const GradientHistogram& histogram, const ExponentScale& scale) {
  const auto total =
      static_cast<double>(std::max<std::int64_t>(1, histogram.counts.finite_nonzero()));
  std::vector<double> parts;
  for (int exponent = scale.low; exponent < scale.high; ++exponent) {
    parts.push_back(static_cast<double>(histogram.counts.at(exponent)) / total);
  }
  return parts;
}

std::string short_part(double part) {
  if (part == 0) return "0";
  return part < 0.001 ? "<0.1 %" : format_fixed(100 * part, 1) + " %";
}

double outside_f16(const GradientHistogram& histogram, double scale) {
  return histogram.lost_in(DType::kF16, scale) + histogram.overflowing_in(DType::kF16, scale);
}

}  // namespace mezzo::report
