// Lists of names in messages.
#pragma once

#include <string>
#include <vector>

namespace mezzo::data {

// The first ten, separated by commas, and how many there are more.
std::string first_names(const std::vector<std::string>& names);

}  // namespace mezzo::data
