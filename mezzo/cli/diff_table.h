// mezzo diff: its table and its log.
#pragma once

#include <cstddef>
#include <string>

#include "mezzo/cli/json_lines.h"
#include "mezzo/numbers/compare.h"

namespace mezzo::cli {

// The results with the largest errors, and those that the lines of the comparison name, in the
// order of the network; at most about `most` of them.
std::string diff_table(const numbers::Comparison& found, std::size_t most);

// A line for each result and for each parameter's gradient, and one for the whole.
void log_comparison(const numbers::Comparison& found, JsonLines& json);

}  // namespace mezzo::cli
