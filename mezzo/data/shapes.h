// The generated set `shapes`: ten kinds of coloured shapes on textured backgrounds, 32x32 in
// colour.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "mezzo/data/dataset.h"

namespace mezzo::data {

inline constexpr std::int64_t kShapesTrainSize = 10'000;
inline constexpr std::int64_t kShapesTestSize = 2'000;
inline constexpr std::int64_t kShapesSide = 32;

// Draws image `index` into 32 * 32 * 3 bytes (channels innermost). Its label is index mod 10:
// circle, square, triangle, star, ring, cross, bar, crescent, heart, frame.
void draw_shape(Split split, std::int64_t index, std::span<std::uint8_t> pixels);

// The first `size` images of the split; 0 for the usual number. Neither colour nor position gives
// the class away. Throws ArgumentError if `size` is negative.
std::unique_ptr<Dataset> open_shapes(Split split, std::int64_t size = 0);

}  // namespace mezzo::data
