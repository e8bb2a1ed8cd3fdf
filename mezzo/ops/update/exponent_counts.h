// Histograms of the binary exponents of a tensor's values, exact enough to tell how formats of 16
// and of 8 bits would round them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "mezzo/core/dtype.h"
#include "mezzo/ops/update/number_format.h"

namespace mezzo {

// The number of finite values other than zero that rounding to a format makes zero, subnormal or
// infinite (in e4m3, which has no infinity: NaN). Of f16 and bf16 by the rules of core/half.h.
struct Rounded {
  std::int64_t to_zero = 0;
  std::int64_t to_subnormal = 0;
  std::int64_t to_infinity = 0;

  bool operator==(const Rounded&) const = default;
};

// Counts of f32 values by exponent field, ignoring signs; 16-bit values are counted as the f32
// values that they equal. Each binade is counted in parts, cut where rounding to one of the formats
// changes its result if the binade lies at an end of its range: see number_format.h. Multiplication
// by a power of two moves whole binades, so one histogram answers for every such scale.
struct ExponentCounts {
  static constexpr int kFields = 256;
  // The f32 fractions (23 bits) at which the second to the last part begin. The first part is an
  // exact power of two: 2^-25 is the largest number that f16 rounds to zero, 2^-10 and 2^-17 are
  // those of e4m3 and e5m2.
  static constexpr std::array<std::int32_t, 7> kPartBegins{
      1,
      0x600000,   // from here e5m2's last subnormal binade rounds to its smallest normal number
      0x680001,   // from here e4m3's last binade leaves its range; 464, before it, is a tie
      0x700000,   // the same as 0x600000 for e4m3, and from here e5m2's last binade is infinite
      0x7f8000,   // from here bf16's last binade rounds to infinity
      0x7fe000,   // from here f16's last subnormal binade rounds to its smallest normal number
      0x7ff000};  // from here f16's last binade rounds to infinity
  static constexpr int kParts = 8;
  static constexpr std::size_t kCells = std::size_t{kFields} * kParts;

  // The count at index field * kParts + part. The cells of field 0 are zero and f32's subnormals,
  // those of field 255 infinity and NaN.
  std::array<std::int64_t, kCells> cells{};

  std::int64_t total() const;
  std::int64_t zeros() const { return cells.front(); }
  std::int64_t infinities() const { return cells[kCells - kParts]; }
  std::int64_t nans() const;
  bool all_finite() const { return infinities() + nans() == 0; }
  std::int64_t finite_nonzero() const;

  // The number of finite values x with 2^exponent <= |x| < 2^(exponent + 1), for exponents from
  // -126 to 127; at -127 the number of f32's subnormals.
  std::int64_t at(int exponent) const;
  static constexpr int kLowest = -127;
  static constexpr int kHighest = 127;
  // The largest exponent of a finite value other than zero; none if there is no such value.
  std::optional<int> largest() const;

  // The smallest one, from -127 on; none if there is no such value.
  std::optional<int> smallest() const;

  // The effect of rounding all values times 2^shift. f32's subnormals count as zero at every shift,
  // because their exponents are not counted.
  Rounded rounded_to(NumberFormat format, int shift = 0) const;
  // Throws ArgumentError unless the dtype is bf16 or f16.
  Rounded rounded_to(DType dtype, int shift = 0) const {
    return rounded_to(format_of(dtype), shift);
  }
  // The share of the sum of all finite magnitudes that the lower end of the format's range takes
  // from the values times 2^shift: those that become zero, and what subnormal numbers lose because
  // they lie far apart. Estimated from the middle of each part of a binade; between 0 and 1. A
  // thousand values that become zero beside one that is a million times as large are a small share.
  double lost_weight_in(NumberFormat format, int shift = 0) const;

  ExponentCounts& operator+=(const ExponentCounts& other);
  bool operator==(const ExponentCounts&) const = default;
};

}  // namespace mezzo
