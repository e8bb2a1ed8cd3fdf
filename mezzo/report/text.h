// Numbers and names as a report writes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace mezzo::report {

// The text with what HTML would take for markup replaced: & < > " and '. Control characters, which
// no page may hold, become spaces.
std::string escape(std::string_view text);

// A name of more than `most` bytes as its end after an ellipsis: where names differ. No character
// of UTF-8 is cut.
std::string shortened(const std::string& name, std::size_t most);

// `0.0314`, `12.5`, `1.2e-07`: so many significant digits at most, no zeros at the end. What is not
// finite is written as `nan`, `inf` or `-inf`.
std::string format_number(double value, int digits = 4);
// `3.20`: so many digits after the point.
std::string format_fixed(double value, int digits);

// A part of 1 as a percentage: `none`, `less than 0.01 %`, `0.25 %`, `12.3 %`, `all`. Only nothing
// is none, and only everything is all.
std::string format_part(double part);

// `2^13` with a raised exponent.
std::string power_of_two(int exponent);
// The same of a number; as a plain number if it is no power of two.
std::string format_scale(double scale);

// The bytes as letters, digits, + and /, four for three bytes, with = at the end where they do not
// fit (RFC 4648, section 4).
std::string base64(std::span<const std::byte> bytes);

// `1 step`, `3 steps`.
std::string count_of(std::int64_t count, std::string_view noun);

}  // namespace mezzo::report
