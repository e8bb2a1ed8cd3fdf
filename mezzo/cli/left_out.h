// Reports the images that --bad-images skip leaves out, in the log and at the end of the output.
#pragma once

#include "mezzo/cli/json_lines.h"
#include "mezzo/data/dataset.h"

namespace mezzo::cli {

// Logs an event for each of them, after the start event. `split`: train or test.
void begin_left_out(JsonLines& json, const data::Dataset& set, const char* split);

// Prints `train: 2 of 100 images cannot be read: ...`, if there are any.
void print_left_out(const data::Dataset& set, const char* split);

}  // namespace mezzo::cli
