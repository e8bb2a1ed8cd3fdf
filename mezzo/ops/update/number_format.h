// The formats with few bits that numbers may be rounded to, and the ends of their ranges.
#pragma once

#include <array>
#include <cstdint>

#include "mezzo/core/dtype.h"

namespace mezzo {

// f16 and bf16 are dtypes; e4m3 and e5m2 are the OCP's formats of eight bits.
enum class NumberFormat : std::uint8_t { kF16, kBf16, kE4m3, kE5m2 };

// Bounds between the results of rounding a positive f32 number to nearest even: it becomes zero
// below `first_subnormal`, subnormal below `first_normal`, and leaves the range from
// `first_infinite` on.
struct NumberFormatInfo {
  NumberFormat format;
  const char* name;
  float first_subnormal;
  float first_normal;
  float first_infinite;
  // The distance between neighbouring subnormal numbers; 0 if the format has none.
  double subnormal_step;
};

// One row for each format, in the order of the enumeration.
//
// Let the format have m bits of fraction, and let 2^e be its smallest normal number. Its subnormal
// numbers are the multiples of s = 2^(e - m). Half of s is a tie between 0 and s and goes to the
// even one, 0, so the first subnormal result has the next f32 number. The tie between the largest
// subnormal number, (2^m - 1) s, and 2^e goes to 2^e: its fraction in the binade below is 1 - 2^-m.
// The tie between the largest number and the one that would follow it leaves the range, since the
// largest number's fraction is odd. e4m3 is the exception: its last fraction is NaN, so its largest
// number, 448 = 1.75 * 2^8, has an even one and gets the tie, 464.
inline constexpr std::array<NumberFormatInfo, 4> kNumberFormats{{
    {NumberFormat::kF16, "f16", 0x1.000002p-25F, 0x1.ffcp-15F, 65520.0F, 0x1p-24},
    // mezzo reads and writes bf16's subnormal numbers as zeros: core/half.h.
    {NumberFormat::kBf16, "bf16", 0x1p-126F, 0x1p-126F, 0x1.ffp127F, 0},
    // No infinity: what leaves the range becomes NaN, or 448 where a cast saturates.
    {NumberFormat::kE4m3, "e4m3", 0x1.000002p-10F, 0x1.ep-7F, 0x1.d00002p8F, 0x1p-9},
    {NumberFormat::kE5m2, "e5m2", 0x1.000002p-17F, 0x1.cp-15F, 61440.0F, 0x1p-16},
}};

constexpr const NumberFormatInfo& info_of(NumberFormat format) {
  return kNumberFormats[static_cast<std::size_t>(format)];
}
constexpr const char* name_of(NumberFormat format) { return info_of(format).name; }

// The format of a 16-bit dtype. Throws ArgumentError for others.
NumberFormat format_of(DType dtype);

}  // namespace mezzo
