// Reports the images that --bad-images skip leaves out, in the log and at the end of the output.
#pragma once

#include "mezzo/cli/json_lines.h"
#include "mezzo/train/data_pair.h"

namespace mezzo::cli {

// Logs an event for each of them, after the start event. Sets that are null have none.
void begin_left_out(JsonLines& json, const train::DataPair& data);

// Prints `train: 2 of 100 images cannot be read: ...`, if there are any.
void print_left_out(const train::DataPair& data);

}  // namespace mezzo::cli
