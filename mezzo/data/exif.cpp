#include "mezzo/data/exif.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

namespace mezzo::data {
namespace {

using Bytes = std::span<const std::uint8_t>;

// The bytes from `begin` on; empty if there are not that many.
Bytes part_of(Bytes bytes, std::size_t begin, std::size_t count) {
  return begin <= bytes.size() && count <= bytes.size() - begin ? bytes.subspan(begin, count)
                                                                : Bytes{};
}

bool is_text(Bytes bytes, std::string_view text) {
  return std::ranges::equal(bytes, text, {}, {},
                            [](char letter) { return static_cast<std::uint8_t>(letter); });
}

// A number of `count` bytes; nullopt if the bytes end earlier.
std::optional<std::uint32_t> number_at(Bytes bytes, std::size_t begin, std::size_t count,
                                       bool low_first = false) {
  const Bytes digits = part_of(bytes, begin, count);
  if (digits.empty()) return std::nullopt;
  std::uint32_t number = 0;
  for (std::size_t i = 0; i < count; ++i) {
    number = number << 8U | digits[low_first ? count - 1 - i : i];
  }
  return number;
}

// Parses EXIF's TIFF structure: the byte order, 42, and the offset of the first directory. A
// directory is a count, followed by entries of tag, type, number of values and value.
std::optional<std::uint32_t> orientation_in_tiff(Bytes tiff) {
  constexpr std::uint32_t kOrientation = 0x0112;
  constexpr std::uint32_t kShort = 3;
  constexpr std::size_t kEntry = 12;
  const bool low_first = is_text(part_of(tiff, 0, 2), "II");
  if (!low_first && !is_text(part_of(tiff, 0, 2), "MM")) return std::nullopt;
  if (number_at(tiff, 2, 2, low_first) != 42U) return std::nullopt;
  const std::size_t directory = number_at(tiff, 4, 4, low_first).value_or(tiff.size());
  const std::uint32_t entries = number_at(tiff, directory, 2, low_first).value_or(0);
  for (std::size_t i = 0; i < entries; ++i) {
    const Bytes entry = part_of(tiff, directory + 2 + i * kEntry, kEntry);
    if (entry.empty()) return std::nullopt;
    if (number_at(entry, 0, 2, low_first) != kOrientation) continue;
    const bool is_one_short =
        number_at(entry, 2, 2, low_first) == kShort && number_at(entry, 4, 4, low_first) == 1U;
    return is_one_short ? number_at(entry, 8, 2, low_first) : std::nullopt;
  }
  return std::nullopt;
}

// The EXIF data of a JPEG file lies in a segment before the first scan.
Bytes exif_of_jpeg(Bytes file) {
  constexpr std::uint8_t kApp1 = 0xE1;
  constexpr std::uint8_t kScan = 0xDA;
  constexpr std::string_view kExif{"Exif\0\0", 6};
  std::size_t at = 2;
  while (true) {
    while (!part_of(file, at, 2).empty() && file[at] == 0xFF && file[at + 1] == 0xFF) ++at;
    const Bytes head = part_of(file, at, 4);
    if (head.empty() || head[0] != 0xFF || head[1] == kScan) return {};
    const std::size_t length = std::size_t{head[2]} << 8U | head[3];  // includes its own two bytes
    if (length < 2) return {};
    const Bytes segment = part_of(file, at + 4, length - 2);
    if (head[1] == kApp1 && is_text(part_of(segment, 0, kExif.size()), kExif)) {
      return segment.subspan(kExif.size());
    }
    at += 2 + length;
  }
}

// A PNG chunk is the length of the data, a name of four letters, the data and a checksum.
Bytes exif_of_png(Bytes file) {
  std::size_t at = 8;
  while (const auto length = number_at(file, at, 4)) {
    const Bytes name = part_of(file, at + 4, 4);
    if (is_text(name, "eXIf")) return part_of(file, at + 8, *length);
    if (name.empty() || is_text(name, "IEND")) return {};
    at += std::size_t{12} + *length;
  }
  return {};
}

}  // namespace

int exif_orientation(Bytes file) {
  constexpr int kLast = 8;
  const bool is_jpeg = number_at(file, 0, 2) == 0xFFD8U;
  const auto found = orientation_in_tiff(is_jpeg ? exif_of_jpeg(file) : exif_of_png(file));
  const auto orientation = static_cast<int>(std::min<std::uint32_t>(found.value_or(0), kLast + 1));
  return orientation >= kUpright && orientation <= kLast ? orientation : kUpright;
}

Image turned_upright(Image image, int orientation) {
  if (orientation == kUpright) return image;
  const bool swaps_axes = orientation >= 5;
  // Whether the source is read from its last row, or its last column, on.
  const bool from_last_row =
      orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  const bool from_last_column =
      orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const ImageView in = image.view();
  Image out;
  out.reshape({in.channels, swaps_axes ? in.width : in.height, swaps_axes ? in.height : in.width});
  auto to = out.pixels.begin();
  for (std::int64_t y = 0; y < out.shape[1]; ++y) {
    for (std::int64_t x = 0; x < out.shape[2]; ++x) {
      const std::int64_t row = swaps_axes ? x : y;
      const std::int64_t column = swaps_axes ? y : x;
      const std::uint8_t* from = in.row(from_last_row ? in.height - 1 - row : row) +
                                 (from_last_column ? in.width - 1 - column : column) * in.channels;
      to = std::copy_n(from, in.channels, to);
    }
  }
  return out;
}

}  // namespace mezzo::data
