// Bilinear interpolation of byte images.
#pragma once

#include <cstdint>
#include <span>

#include "mezzo/data/image.h"

namespace mezzo::data {

// Scales `in` to `height` by `width` into `out` (height * width * channels bytes). Pixel centres
// lie at halves: output pixel i samples (i + 0.5) * in / out - 0.5, and the edge extends outwards.
// That is OpenCV's INTER_LINEAR, hence MindSpore's Resize, and PyTorch's interpolate() with
// align_corners off. With `antialias`, a shrinking image is averaged over the area that an output
// pixel covers, as in Pillow's and torchvision's resize; an enlarged image is not affected. The
// arithmetic is in integers, so that every machine gives the same bytes. They are within 0.51 of
// the exact value where an output pixel depends on two pixels per axis.
void resize_bilinear(const ImageView& in, std::int64_t height, std::int64_t width, bool antialias,
                     std::span<std::uint8_t> out);

}  // namespace mezzo::data
