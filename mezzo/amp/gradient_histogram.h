// Histograms of the binary exponents of gradients, activations and weights, which show what formats
// with fewer bits would lose.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "mezzo/core/shape.h"
#include "mezzo/ops/update/exponent_counts.h"

namespace mezzo::amp {

// The exponents of what a name stands for: of the gradients of one parameter or of one module's
// output, of the results of a call, or of a weight. Gradients are the true ones: a loss scale is
// removed before counting.
struct ExponentHistogram {
  std::string name{};  // of the parameter, the module or the call
  Shape shape{};       // of the tensor at the last count
  ExponentCounts counts{};
  std::int64_t passes = 0;  // number of passes that were counted

  // Adds the counts of another histogram.
  void merge(const ExponentHistogram& other);

  // The fraction of the finite numbers other than zero that rounding to that dtype would make
  // zero, or infinite, after multiplication by `scale`; 0 if there are none. Exact for f32
  // numbers that are normal. Throws ArgumentError unless the dtype has 16 bits and the
  // scale a power of two; see floor_power_of_two().
  double lost_in(DType dtype, double scale = 1) const;
  double overflowing_in(DType dtype, double scale = 1) const;
  // The fraction that becomes subnormal, and so keeps fewer bits.
  double subnormal_in(DType dtype, double scale = 1) const;

  // The largest power of two at which even gradients 2^margin times as large would not overflow;
  // none if all are zero. The margin is for gradients that were not counted, since they grow and
  // shrink during training.
  std::optional<double> best_scale(DType dtype, int margin = 2) const;

  // The exponent of the q-th quantile of the finite gradients other than zero, for q in [0, 1]: 0
  // is the smallest, 1 the largest. None if there are none.
  std::optional<int> quantile(double q) const;
};

using GradientHistogram = ExponentHistogram;

// The largest power of two that is at most `scale`. Throws ArgumentError unless the scale is
// positive and finite.
double floor_power_of_two(double scale);

// The sum of histograms, under a new name.
ExponentHistogram sum_of(std::span<const ExponentHistogram> histograms, std::string name);

}  // namespace mezzo::amp
