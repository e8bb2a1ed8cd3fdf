#include "mezzo/ops/update/exponent_counts.h"

#include <algorithm>
#include <numeric>

#include "mezzo/core/error.h"

namespace mezzo {
namespace {

constexpr int kBias = 127;
constexpr int kParts = ExponentCounts::kParts;
constexpr std::ptrdiff_t kFirstNormal = kParts;  // the cell of 2^-126
constexpr std::ptrdiff_t kEnd = static_cast<std::ptrdiff_t>(ExponentCounts::kCells) - kParts;

// The cell of that part of a binade, clamped to the cells of normal numbers.
std::ptrdiff_t normal_cell(int exponent, int part) {
  const std::ptrdiff_t cell = std::ptrdiff_t{exponent + kBias} * kParts + part;
  return std::clamp(cell, kFirstNormal, kEnd);
}

// The bounds between the results of rounding, as cells of normal numbers: results are zero below
// `subnormal`, subnormal below `normal`, and infinite from `infinite` on.
struct Bounds {
  std::ptrdiff_t subnormal;
  std::ptrdiff_t normal;
  std::ptrdiff_t infinite;
};

Bounds bounds_of(DType dtype, int shift) {
  if (dtype == DType::kF16) {
    // 2^-25 is halfway between zero and the smallest subnormal, and rounds to the even one: zero.
    return {normal_cell(-25 - shift, 1), normal_cell(-15 - shift, 3), normal_cell(15 - shift, 4)};
  }
  // bf16 has no subnormals: values below 2^-126 are read as zero.
  const std::ptrdiff_t lowest = normal_cell(-126 - shift, 0);
  return {lowest, lowest, normal_cell(127 - shift, 2)};
}

}  // namespace

std::int64_t ExponentCounts::total() const {
  return std::accumulate(cells.begin(), cells.end(), std::int64_t{0});
}

std::int64_t ExponentCounts::nans() const {
  return std::accumulate(cells.begin() + kEnd + 1, cells.end(), std::int64_t{0});
}

std::int64_t ExponentCounts::finite_nonzero() const {
  return std::accumulate(cells.begin() + 1, cells.begin() + kEnd, std::int64_t{0});
}

std::int64_t ExponentCounts::at(int exponent) const {
  check_arg(exponent >= kLowest && exponent <= kHighest, "exponent_counts", "the exponent ",
            exponent, " is not in [-127, 127]. Give one that is");
  const auto begin = cells.begin() + std::ptrdiff_t{exponent + kBias} * kParts;
  // The first part of field 0 counts zeros, which have no exponent.
  return std::accumulate(begin + (exponent == kLowest ? 1 : 0), begin + kParts, std::int64_t{0});
}

std::optional<int> ExponentCounts::largest() const {
  for (int exponent = kHighest; exponent >= kLowest; --exponent) {
    if (at(exponent) > 0) return exponent;
  }
  return std::nullopt;
}

Rounded ExponentCounts::rounded_to(DType dtype, int shift) const {
  check_arg(is_lower(dtype), "exponent_counts", dtype, " is not a 16-bit type. Use ",
            lower_dtypes());
  // Beyond these shifts every normal number is outside the range of both types.
  const Bounds bounds = bounds_of(dtype, std::clamp(shift, -512, 512));
  const auto sum = [&](std::ptrdiff_t begin, std::ptrdiff_t end) {
    return std::accumulate(cells.begin() + begin, cells.begin() + end, std::int64_t{0});
  };
  return {.to_zero = sum(1, bounds.subnormal),
          .to_subnormal = sum(bounds.subnormal, bounds.normal),
          .to_infinity = sum(bounds.infinite, kEnd)};
}

ExponentCounts& ExponentCounts::operator+=(const ExponentCounts& other) {
  std::ranges::transform(cells, other.cells, cells.begin(), std::plus<>());
  return *this;
}

}  // namespace mezzo
