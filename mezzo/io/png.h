// PNG files for reports and event files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mezzo/core/shape.h"

namespace mezzo::io {

// Encodes pixels as a PNG file: 8 bits each, rows from the top, channels innermost. `shape` is
// [channels, height, width], with 1 channel for grey and 3 for RGB. Equal pixels give equal bytes.
// Throws ArgumentError for another number of channels, an empty picture, or pixels that do not
// match the shape.
std::vector<std::byte> encode_png(std::span<const std::uint8_t> pixels, const Shape& shape);

}  // namespace mezzo::io
