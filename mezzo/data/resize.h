// Bilinear interpolation of byte images.
#pragma once

#include <cstdint>
#include <span>

#include "mezzo/data/image.h"

namespace mezzo::data {

// Scales `in` to `height` by `width` into `out` (height * width * channels bytes). Pixel centres
// lie at halves: output pixel i looks at (i + 0.5) * in / out - 0.5, and beyond the edge the edge
// goes on. That is OpenCV's INTER_LINEAR, hence MindSpore's Resize, and PyTorch's interpolate()
// with align_corners off. With `antialias` a shrinking image is averaged over all that an output
// pixel covers, as Pillow's and torchvision's resize do it; an enlarged one comes out the same. The
// arithmetic is in integers, so that every machine gives the same bytes; they are within 0.51 of
// the exact value where an output pixel sees two pixels per axis.
void resize_bilinear(const ImageView& in, std::int64_t height, std::int64_t width, bool antialias,
                     std::span<std::uint8_t> out);

}  // namespace mezzo::data
