// Histograms of the binary exponents of a tensor's values, exact enough to tell how 16-bit types
// would round them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "mezzo/core/dtype.h"

namespace mezzo {

// The number of finite values other than zero that rounding to a 16-bit type makes zero, subnormal
// or infinite, by the rules of core/half.h.
struct Rounded {
  std::int64_t to_zero = 0;
  std::int64_t to_subnormal = 0;
  std::int64_t to_infinity = 0;

  bool operator==(const Rounded&) const = default;
};

// Counts of f32 values by exponent field, ignoring signs; 16-bit values are counted as the f32
// values that they equal. Each binade is counted in parts, cut where rounding to f16 or bf16
// changes its result if the binade lies at an end of their range. Multiplication by a power of two
// moves whole binades, so one histogram answers for every such scale.
struct ExponentCounts {
  static constexpr int kFields = 256;
  // The f32 fractions (23 bits) at which the second to the last part begin. The first part is an
  // exact power of two: 2^-25 is the largest number that f16 rounds to zero.
  static constexpr std::array<std::int32_t, 4> kPartBegins{
      1,
      0x7f8000,   // from here bf16's last binade rounds to infinity
      0x7fe000,   // from here f16's last subnormal binade rounds to its smallest normal number
      0x7ff000};  // from here f16's last binade rounds to infinity
  static constexpr int kParts = 5;
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

  // The effect of rounding all values times 2^shift. f32's subnormals count as zero at every shift,
  // because their exponents are not counted. Throws ArgumentError unless the dtype is bf16 or f16.
  Rounded rounded_to(DType dtype, int shift = 0) const;

  ExponentCounts& operator+=(const ExponentCounts& other);
  bool operator==(const ExponentCounts&) const = default;
};

}  // namespace mezzo
