// Results as text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mezzo::cli {

// Rows of cells under a header; columns of numbers are aligned to the right, others to the left.
std::string format_table(const std::vector<std::vector<std::string>>& rows);

// A loss as it is printed: `nan`, where fmt would print `-nan` if the bit of the sign is set.
double without_sign(double loss);

// `1.25 GB`, `12.3 MB`.
std::string format_bytes(std::int64_t bytes);

}  // namespace mezzo::cli
