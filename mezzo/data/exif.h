// The orientation of a picture, as cameras note it in EXIF, and turning the picture upright.
#pragma once

#include <cstdint>
#include <span>

#include "mezzo/data/image.h"

namespace mezzo::data {

// How a picture is to be shown, as EXIF numbers it: 1 as it is, 2 mirrored left to right, 3 turned
// by half, 4 mirrored top to bottom, 5 mirrored along the falling diagonal, 6 turned by a quarter
// with the clock, 7 mirrored along the rising diagonal, 8 turned by a quarter against the clock.
inline constexpr int kUpright = 1;

// What the EXIF data of a JPEG file (segment APP1) or of a PNG file (chunk eXIf) says, read from
// the whole file. kUpright where there is no such data, where it is damaged or says something else:
// then the picture is all that there is. Only the one entry is read, where a library would take in
// all that a camera has written.
int exif_orientation(std::span<const std::uint8_t> file);

// The picture as an orientation from 1 to 8 wants it shown: height and width change places from 5
// on.
Image turned_upright(Image image, int orientation);

}  // namespace mezzo::data
