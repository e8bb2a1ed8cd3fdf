#include "mezzo/kernels/cpu/conv/grad_weight/grad_weight_columns.h"

#include <algorithm>

#include "mezzo/core/math.h"

namespace mezzo::kernels::grad_weight {
namespace {

std::int64_t panels(std::int64_t channels) { return ceil_div(channels, kPanel); }

// A single panel of y is read once, whatever it is multiplied by. Then the copy costs more than it
// saves, except with dot products if the panels of both are mostly full
// (docs/benchmarks/convolutions.md).
bool pays_for_copy(const Problem& p) {
  constexpr std::int64_t kMostlyFull = 12;
  if (p.out_channels > kPanel) return true;
  return p.products == Products::kPairs &&
         std::min(p.out_channels, p.kernel.w * p.in_channels) >= kMostlyFull;
}

}  // namespace

bool joins_columns(const Problem& p) {
  return p.kernel.w > 1 && pays_for_copy(p) &&
         2 * panels(p.kernel.w * p.in_channels) <= p.kernel.w * panels(p.in_channels);
}

Problem with_joined_columns(Problem p) {
  p.joined = {.columns = p.kernel.w,
              .pixels = p.x.w,
              .channels = p.in_channels,
              .stride = p.attrs.stride.w,
              .step = p.attrs.dilation.w,
              .left = p.attrs.padding.left};
  p.in_channels *= p.kernel.w;
  p.x.w = p.y.w;
  p.kernel.w = 1;
  p.attrs.stride.w = 1;
  p.attrs.dilation.w = 1;
  p.attrs.padding.left = p.attrs.padding.right = 0;
  return p;
}

InPlace pixels_in_place(const JoinedColumns& joined, std::int64_t width) {
  if (joined.step != 1) return {};
  // `first`: the first output whose columns begin after the left padding. `end`: after the last
  // output whose columns end before the right padding.
  const std::int64_t begin = ceil_div(joined.left, joined.stride);
  const std::int64_t room = joined.pixels - joined.columns + joined.left;
  const std::int64_t end = room >= 0 ? room / joined.stride + 1 : 0;
  const std::int64_t first = std::min(begin, width);
  return {first, std::clamp(end, first, width)};
}

Tensor split_columns(const Tensor& joined, const Problem& p) {
  const std::int64_t rows = p.kernel.h;
  const std::int64_t column = p.in_channels * rows;
  return alias(joined, {p.out_channels, p.in_channels, rows, p.kernel.w},
               {p.kernel.w * column, rows, 1, column}, 0);
}

}  // namespace mezzo::kernels::grad_weight
