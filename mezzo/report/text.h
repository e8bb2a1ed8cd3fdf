// Formats numbers and names for a report.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace mezzo::report {

// Escapes what HTML would take for markup: & < > " and '. Control characters, which a page may not
// hold, become spaces.
std::string escape(std::string_view text);

// Shortens a name of more than `most` bytes to an ellipsis and its end, where names differ. UTF-8
// characters are not cut.
std::string shortened(const std::string& name, std::size_t most);

// `0.0314`, `12.5`, `1.2e-07`: at most that many significant digits, without trailing zeros.
// Non-finite values become `nan`, `inf` or `-inf`.
std::string format_number(double value, int digits = 4);
// `3.20`: that many digits after the point.
std::string format_fixed(double value, int digits);

// A value from 0 to 1 as a percentage: `none`, `less than 0.01 %`, `0.25 %`, `12.3 %`, `all`. Only
// exactly 0 is `none`, and only exactly 1 is `all`.
std::string format_part(double part);

// `2^13` with a superscript exponent.
std::string power_of_two(int exponent);
// Formats a scale like power_of_two(), or as a plain number if it is not a power of two.
std::string format_scale(double scale);

// Base64: four of the letters, digits, + and / for three bytes, padded with = at the end (RFC 4648,
// section 4).
std::string base64(std::span<const std::byte> bytes);

// `1 step`, `3 steps`.
std::string count_of(std::int64_t count, std::string_view noun);

}  // namespace mezzo::report
