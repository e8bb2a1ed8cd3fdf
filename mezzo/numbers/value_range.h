// The range of a tensor's values.
#pragma once

#include <cstdint>
#include <string>

#include "mezzo/core/tensor.h"

namespace mezzo::numbers {

// The range of the finite elements of a floating-point tensor, and the number of the others.
struct ValueRange {
  std::int64_t count = 0;  // of all elements
  std::int64_t infinities = 0;
  std::int64_t nans = 0;
  std::int64_t zeros = 0;
  double low = 0;  // the least and the largest finite element; 0 if there is none
  double high = 0;
  double least_magnitude = 0;  // of the finite elements other than zero; 0 if there is none

  bool all_finite() const { return infinities + nans == 0; }
  double largest_magnitude() const { return low < -high ? -low : high; }
  // `between -1.2 and 4.5e+06`, or `all -1.2` for equal ones.
  std::string text() const;
  // `3 of 1024 are infinite and 2 are NaN`; empty if all are finite.
  std::string text_of_bad() const;
};

// The range of a tensor on any device. A tensor of integers has none: its count is 0, and it counts
// as finite.
ValueRange range_of(const Tensor& tensor);

// A number with three digits, as it is read in a sentence: `0.0123`, `65500`, `1.2e+09`.
std::string short_text(double value);

}  // namespace mezzo::numbers
