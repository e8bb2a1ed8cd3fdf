// mezzo diff: what its two arguments name.
#pragma once

#include <string>

#include "mezzo/cli/options.h"
#include "mezzo/train/one_step.h"

namespace mezzo::cli {

// One side of a comparison: the folder of a dump, or a step to make.
struct DiffSide {
  std::string said{};  // as on the command line
  std::string dump{};  // the folder; empty for a step
  train::OneStep::Options step{};
};

// Parses `O2/bf16`, `f64`, `O2/f16+graph`, `O0@weights.safetensors`, `plan:plan.json`, or the path
// of a folder. The step has the shared options of the command, and the level of the text. Throws
// ArgumentError that begins with `argument`.
DiffSide parse_side(const std::string& said, const char* argument, const SharedOptions& shared);

}  // namespace mezzo::cli
