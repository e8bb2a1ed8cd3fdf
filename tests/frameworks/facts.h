// Answers single questions about the frameworks for mezzo.
#pragma once

#include <string>

namespace mezzo::frameworks {

// The answer as text, in the format of the data files: a number, a list, `taken`, `refused`.
std::string fact(const std::string& question);

}  // namespace mezzo::frameworks
