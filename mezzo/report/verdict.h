// The findings of a run in plain sentences.
#pragma once

#include <string>
#include <vector>

#include "mezzo/report/run_data.h"

namespace mezzo::report {

// What came out, what was noted on the way, whether steps were skipped and why, whether the loss
// had to be scaled, what each 16-bit type would do to the gradients, and which loss scale would
// fit. Only what the data says: without histograms there is no sentence about gradients.
std::vector<std::string> verdict(const RunData& run);

// log2 of the loss scale that the drawings show: the one that the run ended with, or else the best
// one for all gradients that were counted; 0 if there is neither.
int shown_shift(const RunData& run);

// The steps whose gradients were counted: `3 of 60 steps`, `60 steps` if they are all. What is said
// of parts of the gradients is about them.
std::string counted_text(const RunData& run);

}  // namespace mezzo::report
