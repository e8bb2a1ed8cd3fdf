// Decodes pictures from JPEG and PNG files.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "mezzo/data/image.h"

namespace mezzo::data {

// The most bytes that a picture's file may have.
inline constexpr std::int64_t kMaxFileBytes = std::int64_t{1} << 28;

struct DecodeOptions {
  // Turn pictures upright according to their EXIF data (exif.h). torchvision's ImageFolder does not
  // do so by default: pictures taken with telephones then lie on their side.
  bool apply_orientation = true;
};

// Decodes a JPEG or PNG file, recognised by its contents, to [3, h, w]. Grey becomes colour, CMYK
// becomes RGB, 16 bits become 8, and transparency is dropped; colour profiles are not applied.
// Throws FileError `[images] NAME: ...` if the file is neither, is damaged or ends early. It also
// throws if the file claims more than kMaxPixels pixels or more than its bytes can hold, before
// memory is allocated for them. Library warnings are errors too where pixels would be wrong.
Image decode_image(std::span<const std::uint8_t> file, std::string_view name,
                   const DecodeOptions& options = {});

// Reads and decodes a file; errors call it `name`.
Image read_image_file(const std::string& path, std::string_view name,
                      const DecodeOptions& options = {});

// `JPEG` or `PNG`; empty if the file begins like neither or cannot be read.
std::string format_of_file(const std::string& path);

namespace detail {

// decode_image() calls these for files that begin like a JPEG and like a PNG file.
Image decode_jpeg(std::span<const std::uint8_t> file, std::string_view name);
Image decode_png(std::span<const std::uint8_t> file, std::string_view name);

// The size that a file's header claims, and the number of bytes in the file.
struct ClaimedSize {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::size_t file_bytes = 0;
};

// Gives `image` the shape [3, height, width]. Throws FileError if the header claims more than
// kMaxPixels, or more pixels per byte than either format can encode.
void take_claimed_shape(const ClaimedSize& claimed, std::string_view name, Image& image);

}  // namespace detail
}  // namespace mezzo::data
