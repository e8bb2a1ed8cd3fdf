#include "mezzo/ops/update/exponent_counts.h"

#include <algorithm>
#include <bit>
#include <cmath>
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

constexpr std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }
constexpr int exponent_of(float value) { return static_cast<int>(bits_of(value) >> 23) - kBias; }
constexpr std::int32_t fraction_of(float value) {
  return static_cast<std::int32_t>(bits_of(value) & 0x7fffffU);
}

// The f32 fraction at which a part of a binade begins.
constexpr std::int32_t begin_of(int part) {
  return part == 0 ? 0 : ExponentCounts::kPartBegins[static_cast<std::size_t>(part) - 1];
}

// The part that begins at that fraction; kParts if none does.
constexpr int part_at(std::int32_t fraction) {
  int part = 0;
  while (part < kParts && begin_of(part) != fraction) ++part;
  return part;
}

constexpr bool every_bound_begins_a_part() {
  return std::ranges::all_of(kNumberFormats, [](const NumberFormatInfo& info) {
    return part_at(fraction_of(info.first_subnormal)) < kParts &&
           part_at(fraction_of(info.first_normal)) < kParts &&
           part_at(fraction_of(info.first_infinite)) < kParts;
  });
}
static_assert(every_bound_begins_a_part(), "the cells cannot tell how a format rounds");

// The bounds between the results of rounding, as cells of normal numbers: results are zero below
// `subnormal`, subnormal below `normal`, and infinite from `infinite` on.
struct Bounds {
  std::ptrdiff_t subnormal;
  std::ptrdiff_t normal;
  std::ptrdiff_t infinite;
};

Bounds bounds_of(NumberFormat format, int shift) {
  // Beyond these shifts every normal number is outside the range of all formats.
  const int moved = std::clamp(shift, -512, 512);
  const auto cell = [moved](float bound) {
    return normal_cell(exponent_of(bound) - moved, part_at(fraction_of(bound)));
  };
  const NumberFormatInfo& info = info_of(format);
  return {cell(info.first_subnormal), cell(info.first_normal), cell(info.first_infinite)};
}

// A magnitude in the middle of a cell. Those of f32's subnormal numbers are not known.
double middle_of(std::ptrdiff_t cell) {
  const int exponent = static_cast<int>(cell / kParts) - kBias;
  if (exponent == -kBias) return 0x1p-127;
  const int part = static_cast<int>(cell % kParts);
  const std::int32_t end = part + 1 < kParts ? begin_of(part + 1) : 1 << 23;
  const double fraction = part == 0 ? 0 : 0.5 * (begin_of(part) + end) * 0x1p-23;
  return std::ldexp(1 + fraction, exponent);
}

}  // namespace

NumberFormat format_of(DType dtype) {
  check_arg(is_lower(dtype), "exponent_counts", dtype, " is not a 16-bit type. Use ",
            lower_dtypes());
  return dtype == DType::kF16 ? NumberFormat::kF16 : NumberFormat::kBf16;
}

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

std::optional<int> ExponentCounts::smallest() const {
  for (int exponent = kLowest; exponent <= kHighest; ++exponent) {
    if (at(exponent) > 0) return exponent;
  }
  return std::nullopt;
}

Rounded ExponentCounts::rounded_to(NumberFormat format, int shift) const {
  const Bounds bounds = bounds_of(format, shift);
  const auto sum = [&](std::ptrdiff_t begin, std::ptrdiff_t end) {
    return std::accumulate(cells.begin() + begin, cells.begin() + end, std::int64_t{0});
  };
  return {.to_zero = sum(1, bounds.subnormal),
          .to_subnormal = sum(bounds.subnormal, bounds.normal),
          .to_infinity = sum(bounds.infinite, kEnd)};
}

double ExponentCounts::lost_weight_in(NumberFormat format, int shift) const {
  const Bounds bounds = bounds_of(format, shift);
  // Rounding to multiples of a step changes a number by a quarter of it in the mean.
  const double change = std::ldexp(info_of(format).subnormal_step / 4, -shift);
  double all = 0;
  double lost = 0;
  for (std::ptrdiff_t cell = 1; cell < kEnd; ++cell) {
    const auto count = static_cast<double>(cells[static_cast<std::size_t>(cell)]);
    if (count == 0) continue;
    const double magnitude = middle_of(cell);
    all += count * magnitude;
    if (cell < bounds.subnormal) lost += count * magnitude;
    const bool is_subnormal = cell >= bounds.subnormal && cell < bounds.normal;
    if (is_subnormal) lost += count * std::min(change, magnitude);
  }
  return all > 0 ? lost / all : 0;
}

ExponentCounts& ExponentCounts::operator+=(const ExponentCounts& other) {
  std::ranges::transform(cells, other.cells, cells.begin(), std::plus<>());
  return *this;
}

}  // namespace mezzo
