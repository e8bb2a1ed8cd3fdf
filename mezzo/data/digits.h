// The generated set `digits`: the ten digits, drawn with strokes and distorted, 28x28 grey.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "mezzo/data/dataset.h"

namespace mezzo::data {

inline constexpr std::int64_t kDigitsTrainSize = 10'000;
inline constexpr std::int64_t kDigitsTestSize = 2'000;
inline constexpr std::int64_t kDigitsSide = 28;

// Draws image `index` (its label is index mod 10) into 28 * 28 bytes, bright on dark.
void draw_digit(Split split, std::int64_t index, std::span<std::uint8_t> pixels);

// The first `size` images of the split; 0 for the usual number. The set is too varied for a linear
// classifier but easy for a small convolutional network. Throws ArgumentError if `size` is
// negative.
std::unique_ptr<Dataset> open_digits(Split split, std::int64_t size = 0);

}  // namespace mezzo::data
