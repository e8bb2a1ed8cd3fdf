#include "mezzo/io/png.h"

#include <csetjmp>

#include <png.h>

#include "mezzo/core/error.h"

namespace mezzo::io {
namespace {

// An encoder and its output. libpng reports errors with longjmp(). The function that is jumped out
// of, write_all_rows(), holds nothing that needs a destructor.
struct Encoder {
  Encoder() = default;
  Encoder(const Encoder&) = delete;
  Encoder& operator=(const Encoder&) = delete;
  ~Encoder() { png_destroy_write_struct(&png, &info); }

  png_structp png = nullptr;
  png_infop info = nullptr;
  std::vector<std::byte> bytes;
  std::jmp_buf jump{};
};

// Only lack of memory leads here.
[[noreturn]] void on_error(png_structp png, png_const_charp /*text*/) {
  std::longjmp(static_cast<Encoder*>(png_get_error_ptr(png))->jump, 1);
}

void on_warning(png_structp /*png*/, png_const_charp /*text*/) {}

void on_write(png_structp png, png_bytep data, std::size_t count) {
  auto& bytes = static_cast<Encoder*>(png_get_io_ptr(png))->bytes;
  const auto* const first = reinterpret_cast<const std::byte*>(data);
  bytes.insert(bytes.end(), first, first + count);
}

void on_flush(png_structp /*png*/) {}

bool write_all_rows(Encoder& encoder, const std::uint8_t* pixels, const Shape& shape) {
  encoder.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &encoder, on_error, on_warning);
  if (encoder.png == nullptr) return false;
  if (setjmp(encoder.jump) != 0) return false;
  encoder.info = png_create_info_struct(encoder.png);
  if (encoder.info == nullptr) return false;
  png_set_write_fn(encoder.png, &encoder, on_write, on_flush);
  png_set_IHDR(encoder.png, encoder.info, static_cast<png_uint_32>(shape[2]),
               static_cast<png_uint_32>(shape[1]), 8,
               shape[0] == 1 ? PNG_COLOR_TYPE_GRAY : PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(encoder.png, encoder.info);
  const std::int64_t row_bytes = shape[0] * shape[2];
  for (std::int64_t y = 0; y < shape[1]; ++y) {
    png_write_row(encoder.png, pixels + y * row_bytes);
  }
  png_write_end(encoder.png, nullptr);
  return true;
}

}  // namespace

std::vector<std::byte> encode_png(std::span<const std::uint8_t> pixels, const Shape& shape) {
  check_arg(shape.rank() == 3 && (shape[0] == 1 || shape[0] == 3) && shape.numel() > 0, "png",
            "a picture must be [1 or 3, height, width] and not empty: ", shape);
  check_arg(pixels.size() == static_cast<std::size_t>(shape.numel()), "png", "a picture of ", shape,
            " has ", shape.numel(), " values: got ", pixels.size());
  Encoder encoder;
  if (!write_all_rows(encoder, pixels.data(), shape)) {
    fail<DeviceError>("png", "out of memory for a picture of ", shape, ". Make it smaller");
  }
  return std::move(encoder.bytes);
}

}  // namespace mezzo::io
