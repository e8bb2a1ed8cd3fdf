// The images that --bad-images skip leaves out: events of the log, and the line at the end.
#pragma once

#include "mezzo/cli/json_lines.h"
#include "mezzo/data/dataset.h"

namespace mezzo::cli {

// An event for each, after that of the start. `split`: train or test.
void begin_left_out(JsonLines& json, const data::Dataset& set, const char* split);

// `train: 2 of 100 images cannot be read: ...`, if there are any.
void print_left_out(const data::Dataset& set, const char* split);

}  // namespace mezzo::cli
