// PNG files, as reports and event files hold them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mezzo/core/shape.h"

namespace mezzo::io {

// The bytes of a PNG file with these pixels: 8 bits each, rows from the top, channels innermost.
// `shape` is [channels, height, width], with 1 channel for grey and 3 for RGB. Equal pixels give
// equal bytes. Throws ArgumentError for other channels, an empty picture or another number of
// pixels.
std::vector<std::byte> encode_png(std::span<const std::uint8_t> pixels, const Shape& shape);

}  // namespace mezzo::io
