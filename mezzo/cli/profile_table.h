// What `mezzo bench --profile` shows.
#pragma once

#include "mezzo/cli/json_lines.h"
#include "mezzo/train/profile.h"
#include "mezzo/train/run.h"

namespace mezzo::cli {

// A table with the time that each kernel takes in a step, and below it what a phase spends between
// its kernels: dispatch, allocation, the tape. `result` is that of the profiled run.
void print_profile(const train::Profile& profile, const train::RunResult& result,
                   const train::MachineRates& rates);

// The same as one JSON line per row.
void write_profile(JsonLines& json, const train::Profile& profile, const train::RunResult& result,
                   const train::MachineRates& rates);

}  // namespace mezzo::cli
