// Formats lists of names for messages.
#pragma once

#include <string>
#include <vector>

namespace mezzo::data {

// The first ten names, separated by commas, and the number of further ones.
std::string first_names(const std::vector<std::string>& names);

}  // namespace mezzo::data
