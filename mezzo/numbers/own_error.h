// The error that one call adds of its own, and what its dtypes explain of it.
//
// An error that a result has against another run is mostly one that came in with its inputs, made
// larger or smaller by the operation: the sum of a million gradients that cancel makes it a
// thousand times as large, and where a ReLU's input changes its sign, so does the gradient, whole.
// No bound that is computed from the inputs' errors allows for this without hiding every fault. So
// a call is made once more instead, from the very inputs that it had, in the next wider dtype: what
// its result differs by from that one is its own error. Nothing that came in counts.
//
// What dtypes explain of it is, as relative 2-norms,
//
//   kRoundings * u  +  response(kSums * sqrt(terms) * v + w)
//
// * u, the unit roundoff of the result's dtype: half of its epsilon, for its rounding and for one
// or
//   two within the operation. To f16 that adds what numbers below its normal ones lose.
// * v, that of the dtype in which products are summed, f32 below f64. The error of a sum of that
// many
//   terms grows like the square root of their number, since roundings go either way.
// * w, the unit roundoff of a 16-bit result once more: what an operation of several steps, such as
//   attention, rounds between them.
// * response(d): how far the call's result moves if every element of its inputs is changed by a
//   factor of 1 + d or 1 - d. A sum that cancels makes any rounding of its terms larger, and this
//   is how much. It takes another call, made only where the first term alone does not explain the
//   error.
#pragma once

#include <vector>

#include "mezzo/amp/step_observer.h"

namespace mezzo::numbers {

struct OwnError {
  bool is_measured = false;
  double error = 0;      // |result - wider result| / |wider result|, as 2-norms
  double largest = 0;    // the largest element of that difference, by the largest of the result
  double explained = 0;  // of `error`

  // An element may be off by several times the mean.
  static constexpr double kPeak = 8;
  bool is_beyond() const {
    return is_measured && !(error <= explained && largest <= kPeak * explained);
  }
};

// Whose own errors are measured. f32 is looked at in f64, by plain loops, which takes long.
enum class Measured : std::uint8_t { kNone, k16Bits, kAll };

// The own error of each output of a call that has just been made. Not measured are integers, casts,
// calls whose result has taken the place of an input, and what the wider dtype cannot compute.
std::vector<OwnError> own_errors(const amp::ObservedStepCall& call, Measured measured);

// The number of products or terms of which each element of a call's output is the sum: at most, and
// 1 where it is not known.
double terms_of(const amp::ObservedStepCall& call, std::size_t output);

// The least that dtypes explain: the first term above.
double rounding_of(DType dtype);

}  // namespace mezzo::numbers
