// Single questions that the frameworks are asked, answered by mezzo.
#pragma once

#include <string>

namespace mezzo::frameworks {

// The answer as text, in the words of the data files: a number, a list, `taken`, `refused`.
std::string fact(const std::string& question);

}  // namespace mezzo::frameworks
