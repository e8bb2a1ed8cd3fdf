// What `mezzo tune` prints and logs.
#pragma once

#include <string>

#include "mezzo/cli/json_lines.h"
#include "mezzo/tune/tune.h"

namespace mezzo::cli {

// The settings that were proved: time, memory and error of each, and which one is the plan.
std::string settings_table(const tune::TuneResult& result);
// The operations, those that take longest first, at most `top`.
std::string operations_table(const tune::TuneResult& result, std::size_t top);
// What was found, in sentences.
std::string tune_summary(const tune::TuneResult& result);
// An event for each operation and for each setting, and the result.
void log_tune(const tune::TuneResult& result, JsonLines& log);

}  // namespace mezzo::cli
