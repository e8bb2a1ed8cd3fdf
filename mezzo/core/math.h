// Integer division that rounds up.
#pragma once

#include <concepts>
#include <type_traits>

namespace mezzo {

// The number of steps of size `step` that cover `n`: n / step, rounded up. For n >= 0 and step > 0.
template <std::integral N, std::integral Step>
constexpr std::common_type_t<N, Step> ceil_div(N n, Step step) {
  using Common = std::common_type_t<N, Step>;
  return (static_cast<Common>(n) + static_cast<Common>(step) - 1) / static_cast<Common>(step);
}

// The smallest multiple of `step` that is at least n, for n >= 0 and step > 0. Wraps to less than n
// if the type is unsigned and cannot hold that multiple.
template <std::integral N, std::integral Step>
constexpr std::common_type_t<N, Step> round_up(N n, Step step) {
  return ceil_div(n, step) * static_cast<std::common_type_t<N, Step>>(step);
}

}  // namespace mezzo
