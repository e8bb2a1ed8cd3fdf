#include "mezzo/amp/gradient_histogram.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "mezzo/core/error.h"

namespace mezzo::amp {
namespace {

// log2 of a power of two.
int shift_of(double scale) {
  int exponent = 0;
  check_arg(
      scale > 0 && std::isfinite(scale) && std::frexp(scale, &exponent) == 0.5,
      "gradient_histogram", "the scale ", scale,
      " is not a power of two, so it does not shift exponents exactly. Use floor_power_of_two()");
  return exponent - 1;
}

double part(std::int64_t count, std::int64_t of) {
  return of == 0 ? 0 : static_cast<double>(count) / static_cast<double>(of);
}

}  // namespace

double floor_power_of_two(double scale) {
  check_arg(scale > 0 && std::isfinite(scale), "gradient_histogram",
            "a scale must be positive and finite: ", scale);
  return std::exp2(std::ilogb(scale));
}

void ExponentHistogram::merge(const ExponentHistogram& other) {
  counts += other.counts;
  passes += other.passes;
}

double ExponentHistogram::lost_in(DType dtype, double scale) const {
  return part(counts.rounded_to(dtype, shift_of(scale)).to_zero, counts.finite_nonzero());
}

double ExponentHistogram::overflowing_in(DType dtype, double scale) const {
  return part(counts.rounded_to(dtype, shift_of(scale)).to_infinity, counts.finite_nonzero());
}

double ExponentHistogram::subnormal_in(DType dtype, double scale) const {
  return part(counts.rounded_to(dtype, shift_of(scale)).to_subnormal, counts.finite_nonzero());
}

std::optional<double> ExponentHistogram::best_scale(DType dtype, int margin) const {
  const auto largest = counts.largest();
  if (!largest.has_value()) return std::nullopt;
  // The binade of the largest gradients begins within the range; whether they all fit depends on
  // their fraction.
  int shift = std::ilogb(max_of(dtype)) - *largest - margin;
  if (counts.rounded_to(dtype, shift + margin).to_infinity > 0) --shift;
  constexpr int kLargestScale = 127;  // in f32, which a scale is
  return std::exp2(std::min(shift, kLargestScale));
}

std::optional<int> ExponentHistogram::quantile(double q) const {
  check_arg(q >= 0 && q <= 1, "gradient_histogram", "a quantile is in [0, 1]: ", q);
  const std::int64_t count = counts.finite_nonzero();
  if (count == 0) return std::nullopt;
  const auto rank = std::min(count - 1, static_cast<std::int64_t>(q * static_cast<double>(count)));
  std::int64_t below = 0;
  int exponent = ExponentCounts::kLowest;
  while ((below += counts.at(exponent)) <= rank) ++exponent;
  return exponent;
}

ExponentHistogram sum_of(std::span<const ExponentHistogram> histograms, std::string name) {
  ExponentHistogram sum{.name = std::move(name)};
  for (const ExponentHistogram& histogram : histograms) sum.merge(histogram);
  return sum;
}

}  // namespace mezzo::amp
