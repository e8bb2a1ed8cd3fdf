// The findings of a run, in plain sentences.
#pragma once

#include <string>
#include <vector>

#include "mezzo/report/run_data.h"

namespace mezzo::report {

// The result, notes from the run, whether steps were skipped and why, whether the loss needed
// scaling, what each 16-bit type would do to the gradients, which loss scale would fit, which
// calls have to be kept in f32 and which may be lowered. It contains only what the data says:
// without histograms there is no sentence about gradients or calls.
std::vector<std::string> verdict(const RunData& run);

// log2 of the loss scale that the drawings show: the one at the end of the run, or else the best
// one for all counted gradients; 0 if there is neither.
int shown_shift(const RunData& run);

// The steps whose gradients were counted: `3 of 60 steps`, or `60 steps` if all were. Statements
// about shares of the gradients refer to these steps.
std::string counted_text(const RunData& run);

}  // namespace mezzo::report
