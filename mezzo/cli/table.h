// Formats results as text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace mezzo::cli {

// Formats rows of cells under a header; columns of numbers are right-aligned, others left-aligned.
std::string format_table(const std::vector<std::vector<std::string>>& rows);

// Like format_table() above, in at most `width` terminal columns if possible. Cells of the
// `wrapped` columns are broken at spaces into several lines, and share the width that the other
// columns leave.
std::string format_table(const std::vector<std::vector<std::string>>& rows, std::size_t width,
                         const std::vector<std::size_t>& wrapped);

// The width of the longest line of a text in terminal columns.
std::size_t width_of(const std::string& text);

// Breaks a text into lines of at most `width`; a longer word gets its own line. The first line
// starts at column `indent`, and the others begin with as many spaces. There is no line end after
// the last line.
std::string wrap(const std::string& text, std::size_t width, std::size_t indent = 0);

// A loss for printing: `nan` instead of the `-nan` that fmt prints if the sign bit is set.
double without_sign(double loss);

// `1.25 GB`, `12.3 MB`.
std::string format_bytes(std::int64_t bytes);

}  // namespace mezzo::cli
