// The shapes of the ten digits as strokes.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace mezzo::data {

struct Point {
  float x = 0;
  float y = 0;
};

// Points joined by straight lines.
using Stroke = std::vector<Point>;
using Glyph = std::vector<Stroke>;

// The ways of writing `digit` (0 to 9), in a box of x in [-0.6, 0.6], y in [-0.9, 0.9], y down.
std::span<const Glyph> glyphs_of(std::size_t digit);

}  // namespace mezzo::data
