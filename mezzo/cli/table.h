// Results as text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace mezzo::cli {

// Rows of cells under a header; columns of numbers are aligned to the right, others to the left.
std::string format_table(const std::vector<std::vector<std::string>>& rows);

// The same in at most `width` columns of the terminal where that can be: cells of the `wrapped`
// columns take several lines, broken at spaces, and share what the other columns leave.
std::string format_table(const std::vector<std::vector<std::string>>& rows, std::size_t width,
                         const std::vector<std::size_t>& wrapped);

// How many columns of the terminal the widest line of a text takes.
std::size_t width_of(const std::string& text);

// The words of a text on lines of at most `width`; a longer word has a line to itself. The first
// line goes on where `indent` columns are taken, and the others begin with as many spaces. No line
// end after the last.
std::string wrap(const std::string& text, std::size_t width, std::size_t indent = 0);

// A loss as it is printed: `nan`, where fmt would print `-nan` if the bit of the sign is set.
double without_sign(double loss);

// `1.25 GB`, `12.3 MB`.
std::string format_bytes(std::int64_t bytes);

}  // namespace mezzo::cli
