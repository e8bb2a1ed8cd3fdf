#include "mezzo/data/decode.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>
#include <vector>

#include "mezzo/core/error.h"
#include "mezzo/data/exif.h"
#include "mezzo/data/hex_text.h"

namespace mezzo::data {
namespace {

constexpr std::string_view kImagesOp = "images";
constexpr std::array<std::uint8_t, 3> kJpeg{0xFF, 0xD8, 0xFF};
constexpr std::array<std::uint8_t, 8> kPng{0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};

// PNG: deflate expands a byte to at most 1032 bytes, of 8 pixels each at one bit per pixel. JPEG: a
// block takes at least a bit, and covers 8x8 pixels, or 32x32 at the coarsest sampling.
constexpr std::int64_t kMostPixelsPerByte = std::max(1032 * 8, 8 * 32 * 32);

bool begins_with(std::span<const std::uint8_t> file, std::span<const std::uint8_t> magic) {
  return file.size() >= magic.size() && std::equal(magic.begin(), magic.end(), file.begin());
}

std::vector<std::uint8_t> read_bytes(const std::string& path, std::string_view name) {
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  if (error) {
    fail<FileError>(kImagesOp, name, ": cannot be read: ", error.message(), ". Check the path");
  }
  if (size > static_cast<std::uintmax_t>(kMaxFileBytes)) {
    fail<FileError>(kImagesOp, name, ": too large: ", size, " bytes, at most ", kMaxFileBytes,
                    " are read. Store it smaller");
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) fail<FileError>(kImagesOp, name, ": cannot be opened. Check its permissions");
  std::vector<std::uint8_t> bytes(size);
  file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(size));
  if (file.gcount() != static_cast<std::streamsize>(size)) {
    fail<FileError>(kImagesOp, name, ": short file: ", size, " bytes expected, ", file.gcount(),
                    " read", kCopyAgain);
  }
  return bytes;
}

}  // namespace

void detail::take_claimed_shape(const ClaimedSize& claimed, std::string_view name, Image& image) {
  const auto [height, width, file_bytes] = claimed;
  if (height < 1 || width < 1 || width > kMaxPixels / height) {
    fail<FileError>(kImagesOp, name, ": the header claims ", width, "x", height,
                    " pixels, at most ", kMaxPixels, " in all are decoded. Store it smaller");
  }
  if (height * width / kMostPixelsPerByte > static_cast<std::int64_t>(file_bytes)) {
    fail<FileError>(kImagesOp, name, ": the header claims ", width, "x", height,
                    " pixels, which no file of ", file_bytes, " bytes can hold", kCopyAgain);
  }
  image.reshape({3, height, width});
}

namespace {

Image decode_as_stored(std::span<const std::uint8_t> file, std::string_view name) {
  if (begins_with(file, kJpeg)) return detail::decode_jpeg(file, name);
  if (begins_with(file, kPng)) return detail::decode_png(file, name);
  if (file.empty())
    fail<FileError>(kImagesOp, name, ": the file is empty. Copy or download it again");
  fail<FileError>(kImagesOp, name, ": neither a JPEG nor a PNG file: it begins with ",
                  hex_text(file.first(std::min<std::size_t>(file.size(), 8))),
                  ". Convert it or remove it from the folder");
}

}  // namespace

Image decode_image(std::span<const std::uint8_t> file, std::string_view name,
                   const DecodeOptions& options) {
  Image image = decode_as_stored(file, name);
  if (!options.apply_orientation) return image;
  return turned_upright(std::move(image), exif_orientation(file));
}

Image read_image_file(const std::string& path, std::string_view name,
                      const DecodeOptions& options) {
  return decode_image(read_bytes(path, name), name, options);
}

std::string format_of_file(const std::string& path) {
  std::array<std::uint8_t, kPng.size()> head{};
  std::ifstream file(path, std::ios::binary);
  file.read(reinterpret_cast<char*>(head.data()), head.size());
  const auto begin = std::span(head).first(static_cast<std::size_t>(file.gcount()));
  if (begins_with(begin, kJpeg)) return "JPEG";
  return begins_with(begin, kPng) ? "PNG" : "";
}

}  // namespace mezzo::data
