#include "mezzo/kernels/cpu/conv/tap_axis.h"

#include <algorithm>

namespace mezzo::kernels::grad_weight {

TapAxis::TapAxis(std::int64_t count, std::int64_t stride, std::int64_t dilation,
                 std::int64_t padding) {
  for (std::int64_t tap = 0; tap < count; ++tap) {
    const std::int64_t at = tap * dilation - padding;
    const std::int64_t remainder = ((at % stride) + stride) % stride;
    const auto found = std::find(remainders.begin(), remainders.end(), remainder);
    const std::int64_t index = found - remainders.begin();
    if (found == remainders.end()) remainders.push_back(remainder);
    taps.push_back({index, (at - remainder) / stride});
  }
  // Shifts do not decrease from tap to tap.
  first_shift = taps.front().shift;
  halo = taps.back().shift - first_shift;
  for (Tap& tap : taps) tap.shift -= first_shift;
}

}  // namespace mezzo::kernels::grad_weight
