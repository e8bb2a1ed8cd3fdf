// What was counted of a call's results, and what a format with fewer bits would do to them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "mezzo/amp/gradient_histogram.h"
#include "mezzo/ops/dispatcher/call_id.h"
#include "mezzo/ops/update/number_format.h"

namespace mezzo::numbers {

// The exponents of the first result of a call: of one step, or of all that were counted.
struct CallHistogram {
  CallId id{};
  DType dtype = DType::kF32;  // of the result at the last count
  amp::ExponentHistogram exponents{};
  // The number of counted passes in which the result was nothing but zeros though no floating-point
  // input was: too small for its dtype, or made zero by the operation.
  std::int64_t vanished = 0;
};

// What rounding to a format does: shares of the finite numbers other than zero.
struct RangeEffect {
  double to_infinity = 0;
  double to_zero = 0;
  double to_subnormal = 0;
  double lost_weight = 0;  // of the sum of magnitudes: ExponentCounts::lost_weight_in()

  // The rule of what a format can hold. Nothing may become infinite, since one infinity spoils the
  // loss or all gradients. And of what the numbers add up to, at most 1 % may be lost at the lower
  // end of the range: less than a step's randomness. Small numbers beside large ones may vanish.
  static constexpr double kMostLostWeight = 0.01;
  bool fits() const { return to_infinity == 0 && lost_weight <= kMostLostWeight; }
};

// The effect on all numbers times 2^shift.
RangeEffect effect_of(const ExponentCounts& counts, NumberFormat format, int shift = 0);

// The effect with the best scale for this tensor, as a cast to eight bits has one: the largest
// power of two with which nothing leaves the range.
RangeEffect effect_with_scale(const ExponentCounts& counts, NumberFormat format);

// The sums over the calls of each module, in the order of its first call. Calls outside of modules,
// and those of the network itself, have the name `(network)`.
std::vector<amp::ExponentHistogram> by_module(std::span<const CallHistogram> calls);

// What `--keep-f32` is to be given to keep the call in f32: its module, or the operation where that
// is the network itself. Empty for a cast outside of modules, which nobody can keep.
std::string name_to_keep(const CallId& id);

}  // namespace mezzo::numbers
