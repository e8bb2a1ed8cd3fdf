// The findings about activations and weights, in plain sentences: what has to be kept in f32, and
// what may be lowered.
#pragma once

#include <string>
#include <vector>

#include "mezzo/report/run_data.h"

namespace mezzo::report {

// Adds sentences about the ranges of what calls computed and of weights, by the rule of
// numbers::RangeEffect::fits(): the calls that f16 cannot hold, by name, with the reason and the
// option that keeps them in f32; what f16, bf16 and the formats of eight bits can hold. Before a
// switch to f16 they say what it would lose, in an f16 run what it has lost. Nothing is added if
// nothing was counted.
void add_range_sentences(const RunData& run, std::vector<std::string>& sentences);

// The forward passes that were counted: `3 of 60 steps`, or `60 steps` if all were.
std::string counted_passes_text(const RunData& run);

}  // namespace mezzo::report
