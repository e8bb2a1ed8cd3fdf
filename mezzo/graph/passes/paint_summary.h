// How much of a program computes in 16 bits, and what that costs in casts.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "mezzo/graph/program.h"

namespace mezzo::graph {

// Of the forward pass. Casts between f32 and 16 bits are counted apart, host work not at all.
struct PaintSummary {
  std::size_t ops = 0;
  std::size_t ops_lower = 0;        // read or give 16 bits where their precision is a choice
  std::size_t ops_f32 = 0;          // other ones that read or give f32
  std::size_t casts = 0;            // of what is computed
  std::size_t parameter_casts = 0;  // of what exists between runs
  std::optional<DType> lower{};     // empty if there are both 16-bit types, or none

  bool operator==(const PaintSummary&) const = default;
};

// The program has its casts already (see insert_casts()).
PaintSummary summarize(const Program& program);

// `converted 161 of 171 operations to bf16 with 3 casts (and 161 of parameters)`: a line like that
// of TF grappler's auto_mixed_precision.
std::string to_text(const PaintSummary& summary);

}  // namespace mezzo::graph
