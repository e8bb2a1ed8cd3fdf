// The median of measured times.
#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

namespace mezzo::train {

// The median; the mean of the two middle values if their number is even, and 0 without values.
inline double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 != 0) return *middle;
  return std::midpoint(*std::max_element(values.begin(), middle), *middle);
}

}  // namespace mezzo::train
