#include "mezzo/data/exif.h"

#include <algorithm>

#include <gmock/gmock.h>

#include "mezzo/core/error.h"
#include "mezzo/data/decode.h"
#include "mezzo/data/image_folder.h"
#include "tests/unit/data/encode.h"
#include "tests/unit/data/images.h"

namespace mezzo::data {
namespace {

// The pixels that a camera stores for each orientation (EXIF 2.32, table 6), for a picture that
// should be shown as
//   1 2 3
//   4 5 6
struct Stored {
  int orientation;
  std::int64_t height;
  std::vector<std::uint8_t> pixels;
};

const std::vector<Stored>& all_stored() {
  static const std::vector<Stored> stored{
      {1, 2, {1, 2, 3, 4, 5, 6}},  // row 0 is the top, column 0 the left side
      {2, 2, {3, 2, 1, 6, 5, 4}},  // row 0 is the top, column 0 the right side
      {3, 2, {6, 5, 4, 3, 2, 1}},  // row 0 is the bottom, column 0 the right side
      {4, 2, {4, 5, 6, 1, 2, 3}},  // row 0 is the bottom, column 0 the left side
      {5, 3, {1, 4, 2, 5, 3, 6}},  // row 0 is the left side, column 0 the top
      {6, 3, {3, 6, 2, 5, 1, 4}},  // row 0 is the right side, column 0 the top
      {7, 3, {6, 3, 5, 2, 4, 1}},  // row 0 is the right side, column 0 the bottom
      {8, 3, {4, 1, 5, 2, 6, 3}},  // row 0 is the left side, column 0 the bottom
  };
  return stored;
}

// A colour picture: three different bytes for each pixel.
Image picture_of(const Stored& stored) {
  Image image;
  image.reshape({3, stored.height, 6 / stored.height});
  for (std::size_t i = 0; i < 6; ++i) {
    for (std::size_t c = 0; c < 3; ++c) {
      image.pixels[3 * i + c] = static_cast<std::uint8_t>(10 * stored.pixels[i] + c);
    }
  }
  return image;
}

TEST(Orientation, AllEightAreTurnedUpright) {
  const Image upright = picture_of(all_stored()[0]);
  for (const Stored& stored : all_stored()) {
    const Image turned = turned_upright(picture_of(stored), stored.orientation);
    EXPECT_EQ(turned.shape, upright.shape) << stored.orientation;
    EXPECT_EQ(turned.pixels, upright.pixels) << stored.orientation;
  }
}

TEST(Orientation, IsAppliedToPngAndJpegFilesUnlessSwitchedOff) {
  const Image upright = picture_of(all_stored()[0]);
  for (const Stored& stored : all_stored()) {
    for (const bool low_first : {true, false}) {
      const Image as_stored = picture_of(stored);
      const Bytes exif = exif_of(stored.orientation, low_first);
      const Bytes png = with_exif(encode_png(as_stored), exif);
      EXPECT_EQ(decode_image(png, "NAME").pixels, upright.pixels) << stored.orientation;
      const DecodeOptions raw{.apply_orientation = false};
      EXPECT_EQ(decode_image(png, "NAME", raw).pixels, as_stored.pixels) << stored.orientation;
      const Bytes plain = encode_jpeg(as_stored);
      const Image decoded = decode_image(plain, "NAME");
      const Bytes jpeg = with_exif(plain, exif);
      EXPECT_EQ(decode_image(jpeg, "NAME", raw).pixels, decoded.pixels) << stored.orientation;
      const Image turned = turned_upright(decoded, stored.orientation);
      EXPECT_EQ(decode_image(jpeg, "NAME").shape, upright.shape) << stored.orientation;
      EXPECT_EQ(decode_image(jpeg, "NAME").pixels, turned.pixels) << stored.orientation;
    }
  }
}

TEST(Orientation, OfPicturesInFoldersIsApplied) {
  const TempFolder folder;
  const Stored& stored = all_stored()[5];
  folder.write("cat/a.png", with_exif(encode_png(picture_of(stored)), exif_of(stored.orientation)));
  Generator random;
  Image image;
  ImageFolder(folder.path()).read_image(0, random, image);
  EXPECT_EQ(image.pixels, picture_of(all_stored()[0]).pixels);
  ImageFolder(folder.path(), {.apply_orientation = false}).read_image(0, random, image);
  EXPECT_EQ(image.pixels, picture_of(stored).pixels);
}

// A copy in which the bytes from `at` on are replaced.
Bytes changed(Bytes exif, std::size_t at, const Bytes& bytes) {
  std::ranges::copy(bytes, exif.begin() + static_cast<std::ptrdiff_t>(at));
  return exif;
}

TEST(Orientation, DamagedDataSaysNothing) {
  const Bytes png = encode_png(picture_of(all_stored()[0]));
  const auto orientation = [&](const Bytes& exif) {
    return exif_orientation(with_exif(png, exif));
  };
  const Bytes sound = exif_of(6);
  ASSERT_EQ(orientation(sound), 6);
  for (std::size_t size = 0; size < 36; ++size) {
    EXPECT_EQ(orientation({sound.begin(), sound.begin() + static_cast<std::ptrdiff_t>(size)}), 1)
        << size << " bytes: the entry ends at 36";
  }
  EXPECT_EQ(orientation(exif_of(0)), 1);
  EXPECT_EQ(orientation(exif_of(9)), 1);
  EXPECT_EQ(orientation(exif_of(0xFFFF)), 1);
  EXPECT_EQ(orientation(changed(sound, 0, {'I', 'M'})), 1);
  EXPECT_EQ(orientation(changed(sound, 2, {43})), 1);
  EXPECT_EQ(orientation(changed(sound, 4, {0xFF, 0xFF, 0xFF, 0xFF})), 1) << "a directory outside";
  EXPECT_EQ(orientation(changed(sound, 10, {0xFF, 0xFF})), 6) << "entries that are not there";
  EXPECT_EQ(orientation(changed(sound, 26, {4})), 1) << "of another type";
  EXPECT_EQ(orientation(changed(sound, 28, {2})), 1) << "two values";
  EXPECT_EQ(exif_orientation({}), 1);
  EXPECT_EQ(exif_orientation(Bytes{0xFF, 0xD8, 0xFF}), 1);
}

TEST(Orientation, OfAJpegIsReadBeforeTheFirstScanAlone) {
  const Bytes plain = encode_jpeg(picture_of(all_stored()[0]));
  Bytes late = plain;
  const Bytes segment = with_exif(Bytes{0xFF, 0xD8}, exif_of(6));
  late.insert(late.end(), segment.begin() + 2, segment.end());
  EXPECT_EQ(exif_orientation(late), 1);
  // Fill bytes may come before any marker.
  Bytes filled = with_exif(plain, exif_of(6));
  filled.insert(filled.begin() + 2, 3, 0xFF);
  EXPECT_EQ(exif_orientation(filled), 6);
}

}  // namespace
}  // namespace mezzo::data
