// Fuzzes JPEG and PNG files, from memory.
#include "mezzo/data/decode.h"
#include "mezzo/data/exif.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/data/encode.h"

namespace mezzo::fuzz {
namespace {

data::Image picture(std::int64_t channels) {
  data::Image image;
  image.reshape({channels, 9, 11});
  for (std::size_t i = 0; i < image.pixels.size(); ++i) {
    image.pixels[i] = static_cast<std::uint8_t>(37 * i);
  }
  return image;
}

}  // namespace

void read(Input input) {
  const data::Image image = data::decode_image(input, "image");
  require(image.shape[0] == 3 && image.shape.numel() <= 3 * data::kMaxPixels,
          "pictures have three channels and no more pixels than are allowed");
  require(image.pixels.size() == static_cast<std::size_t>(image.shape.numel()),
          "a picture has the bytes of its shape");
  const data::Image stored = data::decode_image(input, "image", {.apply_orientation = false});
  const int orientation = data::exif_orientation(input);
  require(orientation >= 1 && orientation <= 8, "there are eight orientations");
  require(data::turned_upright(stored, orientation).pixels == image.pixels,
          "orientation is all that is applied");
}

std::vector<Bytes> seeds() {
  std::vector<Bytes> files;
  for (const std::int64_t channels : {1, 3, 4}) files.push_back(encode_jpeg(picture(channels)));
  files.push_back(encode_jpeg(picture(3), {.progressive = true}));
  files.push_back(encode_png(picture(3)));
  const auto add_png = [&](const data::PngOptions& options, std::size_t row_bytes) {
    Bytes rows(9 * row_bytes);
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::uint8_t>(i);
    files.push_back(data::encode_png(rows, 9, 11, options));
  };
  add_png({.color_type = 0, .bit_depth = 1}, 2);
  add_png({.color_type = 0, .bit_depth = 16}, 22);
  add_png({.color_type = 3, .bit_depth = 8}, 11);
  add_png({.color_type = 6, .bit_depth = 8, .interlaced = true}, 44);
  for (const int orientation : {1, 6}) {
    for (const bool low_first : {true, false}) {
      const Bytes exif = data::exif_of(orientation, low_first);
      files.push_back(data::with_exif(encode_jpeg(picture(3)), exif));
      files.push_back(data::with_exif(encode_png(picture(3)), exif));
    }
  }
  return files;
}

}  // namespace mezzo::fuzz
