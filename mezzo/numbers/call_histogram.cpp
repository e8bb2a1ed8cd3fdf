#include "mezzo/numbers/call_histogram.h"

#include <algorithm>
#include <cmath>

namespace mezzo::numbers {

RangeEffect effect_of(const ExponentCounts& counts, NumberFormat format, int shift) {
  const std::int64_t finite = counts.finite_nonzero();
  if (finite == 0) return {};
  const Rounded rounded = counts.rounded_to(format, shift);
  const auto share = [finite](std::int64_t count) {
    return static_cast<double>(count) / static_cast<double>(finite);
  };
  return {.to_infinity = share(rounded.to_infinity),
          .to_zero = share(rounded.to_zero),
          .to_subnormal = share(rounded.to_subnormal),
          .lost_weight = counts.lost_weight_in(format, shift)};
}

RangeEffect effect_with_scale(const ExponentCounts& counts, NumberFormat format) {
  const std::optional<int> largest = counts.largest();
  if (!largest.has_value()) return {};
  int shift = std::ilogb(info_of(format).first_infinite) - *largest;
  if (counts.rounded_to(format, shift).to_infinity > 0) --shift;
  return effect_of(counts, format, shift);
}

std::vector<amp::ExponentHistogram> by_module(std::span<const CallHistogram> calls) {
  std::vector<amp::ExponentHistogram> modules;
  for (const CallHistogram& call : calls) {
    const std::string name = call.id.path.empty() ? "(network)" : call.id.path;
    auto found = std::ranges::find(modules, name, &amp::ExponentHistogram::name);
    if (found == modules.end()) {
      modules.push_back({.name = name});
      found = modules.end() - 1;
    }
    found->merge(call.exponents);
    found->shape = call.exponents.shape;
  }
  return modules;
}

std::string name_to_keep(const CallId& id) {
  if (id.op == "cast") return id.path;
  return id.path.empty() ? id.op : id.path;
}

}  // namespace mezzo::numbers
