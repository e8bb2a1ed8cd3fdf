// The output of `mezzo bench --profile`.
#pragma once

#include "mezzo/cli/json_lines.h"
#include "mezzo/train/profile.h"
#include "mezzo/train/run.h"

namespace mezzo::cli {

// Prints a table with the time of each kernel in a step. Below it is the time that each phase
// spends outside kernels: dispatch, allocation, the tape. `result` belongs to the profiled run.
void print_profile(const train::Profile& profile, const train::RunResult& result,
                   const train::MachineRates& rates);

// Writes the same as one JSON line per row.
void write_profile(JsonLines& json, const train::Profile& profile, const train::RunResult& result,
                   const train::MachineRates& rates);

}  // namespace mezzo::cli
