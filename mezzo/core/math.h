// Whole numbers that are divided into steps.
#pragma once

#include <concepts>
#include <type_traits>

namespace mezzo {

// How many steps of `step` cover `n`: n / step, rounded up. For n >= 0 and step > 0.
template <std::integral N, std::integral Step>
constexpr std::common_type_t<N, Step> ceil_div(N n, Step step) {
  using Common = std::common_type_t<N, Step>;
  return (static_cast<Common>(n) + static_cast<Common>(step) - 1) / static_cast<Common>(step);
}

// The smallest multiple of `step` that is at least n, for n >= 0 and step > 0; less than n if the
// type holds no such multiple of an unsigned n.
template <std::integral N, std::integral Step>
constexpr std::common_type_t<N, Step> round_up(N n, Step step) {
  return ceil_div(n, step) * static_cast<std::common_type_t<N, Step>>(step);
}

}  // namespace mezzo
