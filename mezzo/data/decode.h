// Pictures from JPEG and PNG files.
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
  // Turn pictures upright as their EXIF data says (exif.h). torchvision's ImageFolder does not do
  // it by itself: without it, pictures of telephones lie on their side as they do there.
  bool apply_orientation = true;
};

// Decodes a JPEG or PNG file, told by its contents, to [3, h, w]: grey becomes colour, CMYK becomes
// RGB, 16 bits become 8, transparency is dropped; colour profiles are not applied. Throws FileError
// `[images] NAME: ...` if it is neither, if it is damaged or ends early, or if it claims more than
// kMaxPixels pixels or more than its bytes can possibly hold, before memory is taken for them. What
// others shrug off as a warning is an error too where pixels would be wrong.
Image decode_image(std::span<const std::uint8_t> file, std::string_view name,
                   const DecodeOptions& options = {});

// Reads and decodes a file; `name` is what errors call it.
Image read_image_file(const std::string& path, std::string_view name,
                      const DecodeOptions& options = {});

// `JPEG`, `PNG`, or nothing if the file begins like neither or cannot be read.
std::string format_of_file(const std::string& path);

namespace detail {

// What decode_image() calls for files that begin like a JPEG and like a PNG file.
Image decode_jpeg(std::span<const std::uint8_t> file, std::string_view name);
Image decode_png(std::span<const std::uint8_t> file, std::string_view name);

// What the header of a file of so many bytes claims.
struct ClaimedSize {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::size_t file_bytes = 0;
};

// Takes [3, height, width]. Throws FileError if the header claims more than kMaxPixels, or more
// than the most that either format makes of a byte.
void take_claimed_shape(const ClaimedSize& claimed, std::string_view name, Image& image);

}  // namespace detail
}  // namespace mezzo::data
