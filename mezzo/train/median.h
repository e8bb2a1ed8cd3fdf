// The middle of measured times.
#pragma once

#include <algorithm>
#include <vector>

namespace mezzo::train {

// The upper one of the two middle values if there are two; 0 without values.
inline double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace mezzo::train
