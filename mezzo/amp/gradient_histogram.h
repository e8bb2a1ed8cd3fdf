// The binary exponents of gradients, and what 16-bit types would lose of them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "mezzo/core/shape.h"
#include "mezzo/ops/update/exponent_counts.h"

namespace mezzo::amp {

// The exponents of the gradients of one parameter, or of one module's output. The gradients are the
// true ones: a loss scale has been taken out before they were counted.
struct GradientHistogram {
  std::string name{};  // of the parameter, or the path of the module
  Shape shape{};       // of the gradient when it was last counted
  ExponentCounts counts{};
  std::int64_t passes = 0;  // how often gradients were counted in

  // Adds the counts of another histogram.
  void merge(const GradientHistogram& other);

  // The part of the finite gradients other than zero that rounding to that dtype would make zero,
  // or infinite, if they were multiplied by `scale`; 0 if there are none. Exact for f32 gradients
  // that are normal numbers. Throws ArgumentError unless the dtype is bf16 or f16 and the scale a
  // power of two; see floor_power_of_two().
  double lost_in(DType dtype, double scale = 1) const;
  double overflowing_in(DType dtype, double scale = 1) const;
  // The same of those that become subnormal, and so keep fewer bits.
  double subnormal_in(DType dtype, double scale = 1) const;

  // The largest power of two under which even gradients 2^margin times as large would not overflow;
  // none if there are only zeros. Gradients grow and shrink during training: the margin is for
  // those that were not counted.
  std::optional<double> best_scale(DType dtype, int margin = 2) const;

  // The exponent of the q-th quantile of the finite gradients other than zero, q in [0, 1]: 0 is
  // the smallest, 1 the largest. None if there are none.
  std::optional<int> quantile(double q) const;
};

// The largest power of two that is not above the scale. Throws ArgumentError unless 0 < scale and
// finite.
double floor_power_of_two(double scale);

// The sum of histograms under another name.
GradientHistogram sum_of(std::span<const GradientHistogram> histograms, std::string name);

}  // namespace mezzo::amp
