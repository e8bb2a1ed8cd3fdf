// plan.json: the file of a precision plan, to be read and changed by people, too.
#pragma once

#include <string>
#include <string_view>

#include "mezzo/amp/precision_plan.h"

namespace mezzo::amp {

// The text of a plan's file: JSON, with a line for each operation.
std::string plan_text(const PrecisionPlan& plan);
// The plan of such a text. Throws FileError, which begins with `name` and says what is wrong and
// where, for a text that is not a plan or of a newer version, and ArgumentError of check_plan().
PrecisionPlan plan_of_text(std::string_view text, const std::string& name);

// Reads a plan's file. Throws what plan_of_text() throws, and FileError if it cannot be read.
PrecisionPlan read_plan(const std::string& path);
// Writes a plan's file: all of it, or nothing. Throws FileError.
void write_plan(const std::string& path, const PrecisionPlan& plan);

}  // namespace mezzo::amp
