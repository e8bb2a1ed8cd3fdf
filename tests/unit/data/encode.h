// JPEG and PNG files for tests, written with libjpeg and libpng.
#pragma once

#include <cstdint>
#include <vector>

#include "mezzo/data/image.h"

namespace mezzo::data {

using Bytes = std::vector<std::uint8_t>;

struct JpegOptions {
  int quality = 95;
  bool progressive = false;  // a grey image then has two scans, the first with block means
  // shape[0] channels: 1 grey, 3 RGB, 4 CMYK. For CMYK, Adobe's marker says that inks are inverted.
  bool adobe = true;
};
Bytes encode_jpeg(const Image& image, const JpegOptions& options = {});

struct PngOptions {
  int color_type =
      2;  // as the format numbers them: 0 grey, 2 RGB, 3 palette, 4 grey + alpha, 6 RGBA
  int bit_depth = 8;  // 1, 2, 4, 8 or 16
  bool interlaced = false;
  int colours = 256;  // of a palette, whose colour i is (i, 255 - i, i / 2)
};
// `rows` holds the pixels as in the file: packed, 16-bit values with the high byte first.
Bytes encode_png(const Bytes& rows, std::uint32_t height, std::uint32_t width,
                 const PngOptions& options = {});
// Encodes an RGB image.
Bytes encode_png(const Image& image);

// EXIF data with one entry, the orientation; numbers have their low byte first or last.
Bytes exif_of(int orientation, bool low_first = true);
// Inserts that data into a JPEG or PNG file, as segment APP1 or as chunk eXIf.
Bytes with_exif(const Bytes& file, const Bytes& exif);

}  // namespace mezzo::data
