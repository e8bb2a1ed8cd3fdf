// mezzo data for sets of tokens.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mezzo/cli/json_lines.h"
#include "mezzo/data/dataset.h"

namespace mezzo::cli {

// Prints and logs, for each split of `text:FILE` or `tokens:DIR`: how many tokens it has, how they
// are stored, and of the first `limit` of them how many differ, the smallest and the largest.
// Throws what open_tokens() throws.
void show_tokens(const std::string& spec, const std::vector<data::Split>& splits,
                 std::optional<std::int64_t> limit, JsonLines& json);

}  // namespace mezzo::cli
