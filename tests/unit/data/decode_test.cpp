#include "mezzo/data/decode.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>

#include <gmock/gmock.h>

#include "mezzo/core/error.h"
#include "tests/unit/data/encode.h"
#include "tests/unit/data/images.h"

namespace mezzo::data {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// Slowly changing colours, which JPEG preserves well.
Image smooth_image(const Shape& shape) {
  Image image;
  image.reshape(shape);
  for (std::int64_t i = 0; i < shape.numel(); ++i) {
    const std::int64_t c = i % shape[0];
    const std::int64_t x = i / shape[0] % shape[2];
    const std::int64_t y = i / shape[0] / shape[2];
    image.pixels[static_cast<std::size_t>(i)] =
        static_cast<std::uint8_t>(40 + 60 * c % 97 + 2 * x + (c + 1) * y);
  }
  return image;
}

int largest_difference(const Bytes& a, const Bytes& b) {
  int largest = a.size() == b.size() ? 0 : 256;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    largest = std::max(largest, std::abs(a[i] - b[i]));
  }
  return largest;
}

std::string error_of(const Bytes& file) {
  return message_of<FileError>([&] { decode_image(file, "NAME"); });
}

// Decodes a possibly damaged file: it must be refused, or give an image of the size that it claims.
bool is_refused(const Bytes& file) {
  try {
    const Image image = decode_image(file, "NAME");
    EXPECT_EQ(image.pixels.size(), static_cast<std::size_t>(image.shape.numel()));
    EXPECT_EQ(image.shape[0], 3);
    return false;
  } catch (const FileError& error) {
    EXPECT_THAT(error.what(), StartsWith("[images] NAME: "));
    return true;
  }
}

TEST(DecodeJpeg, GivesTheColoursThatWereStored) {
  const Image image = smooth_image({3, 21, 30});
  for (const bool progressive : {false, true}) {
    const Image decoded =
        decode_image(encode_jpeg(image, {.quality = 100, .progressive = progressive}), "NAME");
    EXPECT_EQ(decoded.shape, image.shape);
    // At quality 100 each of the three colour components has an error of about one in either
    // direction.
    EXPECT_LE(largest_difference(decoded.pixels, image.pixels), 4);
  }
}

TEST(DecodeJpeg, GreyBecomesColour) {
  const Image image = smooth_image({1, 16, 9});
  const Image decoded = decode_image(encode_jpeg(image, {.quality = 100}), "NAME");
  ASSERT_EQ(decoded.shape, Shape({3, 16, 9}));
  for (std::size_t i = 0; i < decoded.pixels.size(); ++i) {
    EXPECT_NEAR(decoded.pixels[i], image.pixels[i / 3], 2);
  }
}

TEST(DecodeJpeg, CmykBecomesRgb) {
  // One pixel of each: 200/255 of the light passes cyan, all passes magenta, half passes black.
  Image image;
  image.reshape({4, 8, 8});
  for (std::size_t i = 0; i < 256; ++i) image.pixels[i] = Bytes({200, 255, 100, 128})[i % 4];
  const int expected[] = {200 * 128 / 255, 128, 100 * 128 / 255};
  const Image inverted = decode_image(encode_jpeg(image, {.quality = 100}), "NAME");
  for (std::uint8_t& ink : image.pixels) ink = static_cast<std::uint8_t>(255 - ink);
  const Image plain = decode_image(encode_jpeg(image, {.quality = 100, .adobe = false}), "NAME");
  for (std::size_t i = 0; i < 192; ++i) {
    EXPECT_NEAR(inverted.pixels[i], expected[i % 3], 2);
    EXPECT_NEAR(plain.pixels[i], expected[i % 3], 2);
  }
}

TEST(DecodeJpeg, CutShortIsRefusedWhereverItEnds) {
  for (const bool progressive : {false, true}) {
    const Bytes file = encode_jpeg(random_image({3, 16, 16}, 1), {.progressive = progressive});
    for (std::size_t size = 0; size + 2 < file.size(); ++size) {
      EXPECT_TRUE(is_refused({file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size)}))
          << size;
    }
  }
  EXPECT_THAT(error_of({0xFF, 0xD8, 0xFF}),
              HasSubstr("the JPEG data is damaged or of an unknown kind: "));
}

TEST(DecodeJpeg, NoDamageCrashesIt) {
  for (const bool progressive : {false, true}) {
    const Bytes file =
        encode_jpeg(random_image({3, 16, 16}, 2), {.quality = 50, .progressive = progressive});
    int refused = 0;
    for (std::size_t bit = 0; bit < 8 * file.size(); bit += 3) {
      Bytes damaged = file;
      damaged[bit / 8] ^= static_cast<std::uint8_t>(1U << bit % 8);
      refused += is_refused(damaged) ? 1 : 0;
    }
    EXPECT_GT(refused, 0);
  }
}

// The position of height and width in a JPEG file, after the marker of the frame.
std::size_t frame_size_place(const Bytes& file) {
  for (std::size_t i = 2; i + 8 < file.size(); ++i) {
    if (file[i] == 0xFF && (file[i + 1] == 0xC0 || file[i + 1] == 0xC2)) return i + 5;
  }
  ADD_FAILURE() << "no frame";
  return 0;
}

TEST(DecodeJpeg, BelievesNoLies) {
  const Bytes file = encode_jpeg(smooth_image({3, 16, 16}));
  const std::size_t place = frame_size_place(file);
  Bytes bomb = file;
  std::fill_n(bomb.begin() + static_cast<std::ptrdiff_t>(place), 4, std::uint8_t{0xFD});
  EXPECT_EQ(error_of(bomb),
            "[images] NAME: the header claims 65021x65021 pixels, at most 67108864 in all are "
            "decoded. Store it smaller");
  std::fill_n(bomb.begin() + static_cast<std::ptrdiff_t>(place), 4, std::uint8_t{0x1F});
  EXPECT_THAT(error_of(bomb), HasSubstr("claims 7967x7967 pixels, which no file of"));
  Bytes tall = file;
  tall[place + 1] = 200;
  EXPECT_THAT(error_of(tall), HasSubstr("is damaged"));
  Bytes empty = file;
  empty[place + 3] = 0;
  EXPECT_TRUE(is_refused(empty));
}

// The position of the first scan of a JPEG file.
struct Scan {
  std::ptrdiff_t begin = 0;
  std::ptrdiff_t end = 0;
};

Scan first_scan(const Bytes& file) {
  const auto is_marker = [&](std::size_t i) { return file[i] == 0xFF && file[i + 1] != 0; };
  std::size_t begin = 2;
  while (!(file[begin] == 0xFF && file[begin + 1] == 0xDA)) ++begin;
  std::size_t end = begin + 2;
  while (!is_marker(end)) ++end;
  return {static_cast<std::ptrdiff_t>(begin), static_cast<std::ptrdiff_t>(end)};
}

TEST(DecodeJpeg, EndlessScansAreRefused) {
  // The first scan is repeated many times, which adds nothing but is not invalid.
  const Image image = smooth_image({1, 8, 8});
  const Bytes file = encode_jpeg(image, {.progressive = true});
  const Scan place = first_scan(file);
  const Bytes scan(file.begin() + place.begin, file.begin() + place.end);
  const auto with_scans = [&](int count) {
    Bytes longer(file.begin(), file.begin() + place.begin);
    for (int i = 0; i < count; ++i) longer.insert(longer.end(), scan.begin(), scan.end());
    longer.insert(longer.end(), file.begin() + place.end, file.end());
    return longer;
  };
  EXPECT_EQ(decode_image(with_scans(50), "NAME").pixels, decode_image(file, "NAME").pixels);
  EXPECT_THAT(error_of(with_scans(200)), HasSubstr("more than 100 scans"));
}

TEST(DecodeJpeg, WhatFollowsTheEndDoesNotMatter) {
  Bytes file = encode_jpeg(smooth_image({3, 8, 8}));
  const Bytes pixels = decode_image(file, "NAME").pixels;
  file.insert(file.end(), 100, std::uint8_t{7});
  EXPECT_EQ(decode_image(file, "NAME").pixels, pixels);
}

TEST(DecodePng, GivesExactlyTheColoursThatWereStored) {
  const Image image = random_image({3, 13, 7}, 3);
  EXPECT_EQ(decode_image(encode_png(image), "NAME").shape, image.shape);
  EXPECT_EQ(decode_image(encode_png(image), "NAME").pixels, image.pixels);
  const Bytes interlaced = encode_png(image.pixels, 13, 7, {.interlaced = true});
  EXPECT_EQ(decode_image(interlaced, "NAME").pixels, image.pixels);
}

Bytes decoded_png(const Bytes& rows, std::uint32_t width, int color_type, int bit_depth) {
  const Image image = decode_image(
      encode_png(rows, 1, width, {.color_type = color_type, .bit_depth = bit_depth}), "NAME");
  EXPECT_EQ(image.shape, Shape({3, 1, width}));
  return image.pixels;
}

TEST(DecodePng, EveryKindBecomesRgb) {
  EXPECT_EQ(decoded_png({5, 200}, 2, 0, 8), Bytes({5, 5, 5, 200, 200, 200}));
  EXPECT_EQ(decoded_png({0b01'10'11'00}, 3, 0, 2),
            Bytes({85, 85, 85, 170, 170, 170, 255, 255, 255}));
  EXPECT_EQ(decoded_png({0b10'000000}, 2, 0, 1), Bytes({255, 255, 255, 0, 0, 0}));
  EXPECT_EQ(decoded_png({3, 100}, 2, 3, 8), Bytes({3, 252, 1, 100, 155, 50}));
  EXPECT_EQ(decoded_png({9, 0, 8, 255}, 2, 4, 8), Bytes({9, 9, 9, 8, 8, 8}));
  EXPECT_EQ(decoded_png({1, 2, 3, 0, 4, 5, 6, 9}, 2, 6, 8), Bytes({1, 2, 3, 4, 5, 6}));
  // 16 bits are scaled, not truncated: 0x10FF is nearer to 17 / 255 than to 16 / 255.
  EXPECT_EQ(decoded_png({0x10, 0xFF, 0xFF, 0xFF, 0, 1}, 1, 2, 16), Bytes({17, 255, 0}));
}

TEST(DecodePng, PalettesOfEveryDepthAreLookedUp) {
  const auto decoded = [](const Bytes& rows, const PngOptions& options) {
    return decode_image(encode_png(rows, 2, 3, options), "NAME").pixels;
  };
  const Bytes colours{1, 254, 0, 0, 255, 0, 1, 254, 0, 0, 255, 0, 1, 254, 0, 1, 254, 0};
  for (const bool interlaced : {false, true}) {
    PngOptions options{.color_type = 3, .bit_depth = 1, .interlaced = interlaced, .colours = 2};
    EXPECT_EQ(decoded({0b101'00000, 0b011'00000}, options), colours);
    options.bit_depth = 2;
    EXPECT_EQ(decoded({0b01'00'01'00, 0b00'01'01'00}, options), colours);
    options.bit_depth = 4;
    EXPECT_EQ(decoded({0x10, 0x10, 0x01, 0x10}, options), colours);
    options.bit_depth = 8;
    EXPECT_EQ(decoded({1, 0, 1, 0, 1, 1}, options), colours);
  }
}

TEST(DecodePng, ColoursThatThePaletteLacksAreRefused) {
  EXPECT_EQ(error_of(encode_png({0, 1, 2, 2, 3, 0}, 2, 3, {.color_type = 3, .colours = 3})),
            "[images] NAME: the PNG data is damaged: pixel 1 of row 1 has colour 3 of a palette of "
            "3. Copy or download the file again");
  EXPECT_THAT(
      error_of(encode_png({0b01'11'00'00}, 1, 2, {.color_type = 3, .bit_depth = 2, .colours = 2})),
      HasSubstr("pixel 1 of row 0 has colour 3 of a palette of 2"));
}

TEST(DecodePng, CutShortIsRefusedWhereverItEnds) {
  const Bytes file = encode_png(random_image({3, 6, 6}, 4));
  for (std::size_t size = 0; size < file.size(); ++size) {
    EXPECT_TRUE(is_refused({file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size)}))
        << size;
  }
  EXPECT_THAT(error_of({file.begin(), file.end() - 20}),
              HasSubstr("the PNG data is damaged or of an unknown kind: the file ends early"));
}

TEST(DecodePng, EveryFlippedBitIsNoticed) {
  const Bytes file = encode_png(random_image({3, 6, 6}, 5));
  // The last 4 bytes are the checksum of the chunk that ends the file, which holds nothing. Newer
  // versions of libpng stop before it.
  for (std::size_t bit = 0; bit < 8 * (file.size() - 4); ++bit) {
    Bytes damaged = file;
    damaged[bit / 8] ^= static_cast<std::uint8_t>(1U << bit % 8);
    EXPECT_TRUE(is_refused(damaged)) << bit;
  }
}

// The 4 bytes of a number in PNG.
Bytes in_png(unsigned long value) {
  Bytes bytes;
  for (int shift = 24; shift >= 0; shift -= 8) {
    bytes.push_back(static_cast<std::uint8_t>(value >> shift));
  }
  return bytes;
}

// A file of 6x6 pixels whose header claims another size, with a matching checksum.
Bytes png_claiming(std::uint32_t side) {
  Bytes file = encode_png(random_image({3, 6, 6}, 6));
  std::ranges::copy(in_png(side), &file[16]);
  std::ranges::copy(in_png(side), &file[20]);
  std::ranges::copy(in_png(crc32(0, &file[12], 17)), &file[29]);
  return file;
}

TEST(DecodePng, BelievesNoLies) {
  EXPECT_EQ(error_of(png_claiming(100'000)),
            "[images] NAME: the header claims 100000x100000 pixels, at most 67108864 in all are "
            "decoded. Store it smaller");
  const Bytes file = png_claiming(8'000);
  EXPECT_EQ(error_of(file), "[images] NAME: the header claims 8000x8000 pixels, which no file of " +
                                std::to_string(file.size()) +
                                " bytes can hold. Copy or download the file again");
  EXPECT_THAT(error_of(png_claiming(1'000)), HasSubstr("is damaged"));
}

// A file of 6x6 pixels with a chunk after its header that claims to have that many bytes.
Bytes png_with_chunk(std::string_view name, const Bytes& data, std::size_t claimed) {
  Bytes chunk(name.begin(), name.end());
  chunk.insert(chunk.end(), data.begin(), data.end());
  const Bytes check = in_png(crc32(0, chunk.data(), static_cast<unsigned>(chunk.size())));
  const Bytes size = in_png(claimed);
  chunk.insert(chunk.begin(), size.begin(), size.end());
  chunk.insert(chunk.end(), check.begin(), check.end());
  Bytes file = encode_png(random_image({3, 6, 6}, 8));
  file.insert(file.begin() + 33, chunk.begin(), chunk.end());
  return file;
}

TEST(DecodePng, SkipsWhatIsNotOfThePixels) {
  for (const std::string_view name : {"zTXt", "iCCP", "tEXt", "sBIT", "prIV"}) {
    EXPECT_EQ(decode_image(png_with_chunk(name, {1, 2, 3}, 3), "NAME").pixels,
              random_image({3, 6, 6}, 8).pixels)
        << name;
  }
}

// The peak address space of this process, in KiB.
long peak_address_space() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmPeak:")) return std::stol(line.substr(7));
  }
  throw std::runtime_error("no VmPeak in /proc/self/status");
}

TEST(DecodePng, ChunksGetNoMemoryForWhatTheyClaim) {
  for (const std::string_view name : {"zTXt", "iCCP", "tRNS", "prIV"}) {
    const Bytes file = png_with_chunk(name, {1, 2, 3}, 0x6000'0000);
    const long before = peak_address_space();
    EXPECT_THAT(error_of(file), HasSubstr("the file ends early")) << name;
    EXPECT_LT(peak_address_space() - before, 256 * 1024) << name;
  }
}

// The most pixels per byte: an all-white image at one bit per pixel.
TEST(DecodePng, TakesTheMostThatCompressionCanDo) {
  const Bytes file =
      encode_png(Bytes(4096 * 512, 0xFF), 4096, 4096, {.color_type = 0, .bit_depth = 1});
  EXPECT_EQ(decode_image(file, "NAME").shape, Shape({3, 4096, 4096}));
}

TEST(DecodeImage, SaysWhatItIsNot) {
  EXPECT_EQ(error_of({'G', 'I', 'F', '8', '9', 'a'}),
            "[images] NAME: neither a JPEG nor a PNG file: it begins with 47 49 46 38 39 61. "
            "Convert it or remove it from the folder");
  EXPECT_EQ(error_of({}), "[images] NAME: the file is empty. Copy or download it again");
  EXPECT_THAT(error_of({0xFF, 0xD8}), HasSubstr("neither a JPEG nor a PNG file"));
}

TEST(ReadImageFile, NamesWhatItCannotRead) {
  const TempFolder folder;
  const Image image = random_image({3, 4, 5}, 7);
  EXPECT_EQ(read_image_file(folder.write("a.png", encode_png(image)), "a").pixels, image.pixels);
  EXPECT_EQ(message_of<FileError>([&] { read_image_file(folder.path("none"), "none"); }),
            "[images] none: cannot be read: No such file or directory. Check the path");
  folder.write("large", {});
  std::filesystem::resize_file(folder.path("large"), kMaxFileBytes + 1);  // takes no space
  EXPECT_EQ(message_of<FileError>([&] { read_image_file(folder.path("large"), "large"); }),
            "[images] large: too large: 268435457 bytes, at most 268435456 are read. Store it "
            "smaller");
}

}  // namespace
}  // namespace mezzo::data
