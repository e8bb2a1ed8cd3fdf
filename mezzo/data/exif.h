// Reads the orientation of a picture from its EXIF data, and turns the picture upright.
#pragma once

#include <cstdint>
#include <span>

#include "mezzo/data/image.h"

namespace mezzo::data {

// How a picture is to be shown, as EXIF numbers it: 1 as it is, 2 mirrored left to right, 3 rotated
// by 180 degrees, 4 mirrored top to bottom, 5 mirrored along the falling diagonal, 6 rotated by 90
// degrees clockwise, 7 mirrored along the rising diagonal, 8 rotated by 90 degrees
// counterclockwise.
inline constexpr int kUpright = 1;

// Reads the orientation from the EXIF data of a whole JPEG file (segment APP1) or PNG file (chunk
// eXIf). Returns kUpright if there is no such data, or if it is damaged or says something else,
// since the picture itself may still be good. Only this one entry is parsed, where a library would
// parse everything that a camera has written.
int exif_orientation(std::span<const std::uint8_t> file);

// The picture turned upright from an orientation of 1 to 8. From 5 on, height and width change
// places.
Image turned_upright(Image image, int orientation);

}  // namespace mezzo::data
