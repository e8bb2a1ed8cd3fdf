#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <vector>

#include <png.h>

#include "mezzo/core/error.h"
#include "mezzo/data/decode.h"

namespace mezzo::data {
namespace {

// A decoder and its input, freed together with everything it holds. libpng reports errors with
// longjmp(). The functions that are jumped out of, read_header() and read_pixels(), hold nothing
// that needs a destructor.
struct PngDecoder {
  explicit PngDecoder(std::span<const std::uint8_t> bytes) : rest(bytes) {}
  PngDecoder(const PngDecoder&) = delete;
  PngDecoder& operator=(const PngDecoder&) = delete;
  ~PngDecoder() { png_destroy_read_struct(&png, &info, nullptr); }

  png_structp png = nullptr;
  png_infop info = nullptr;
  std::span<const std::uint8_t> rest;
  std::jmp_buf jump{};
  std::array<char, 200> text{};
};

[[noreturn]] void on_error(png_structp png, png_const_charp text) {
  auto* decoder = static_cast<PngDecoder*>(png_get_error_ptr(png));
  std::snprintf(decoder->text.data(), decoder->text.size(), "%s", text);
  std::longjmp(decoder->jump, 1);
}

// The library treats damaged pixels as an error; its warnings concern what is ignored here.
void on_warning(png_structp /*png*/, png_const_charp /*text*/) {}

void on_read(png_structp png, png_bytep out, std::size_t count) {
  auto* decoder = static_cast<PngDecoder*>(png_get_io_ptr(png));
  if (decoder->rest.size() < count) png_error(png, "the file ends early");
  std::memcpy(out, decoder->rest.data(), count);
  decoder->rest = decoder->rest.subspan(count);
}

bool read_header(PngDecoder& decoder) {
  decoder.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &decoder, on_error, on_warning);
  if (decoder.png == nullptr) return false;
  if (setjmp(decoder.jump) != 0) return false;
  decoder.info = png_create_info_struct(decoder.png);
  if (decoder.info == nullptr) png_error(decoder.png, "no memory");
  png_set_read_fn(decoder.png, &decoder, on_read);
  // Text, colour profiles and the like say nothing about the pixels. The library would allocate
  // what such a chunk claims, 2 GB and more, before it finds that the file is shorter.
  png_set_keep_unknown_chunks(decoder.png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  // take_claimed_shape() judges sizes, since its message names the limit.
  png_set_user_limits(decoder.png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
  png_read_info(decoder.png, decoder.info);
  return true;
}

// Sets up three bytes per pixel for every format. For a palette it sets up one byte, the index of
// the colour: the library would use black for indices that the palette lacks.
void prefetch_bytes(png_structp png, png_infop info) {
  const png_byte kind = png_get_color_type(png, info);
  if (kind == PNG_COLOR_TYPE_PALETTE) png_set_packing(png);
  if ((kind & PNG_COLOR_MASK_COLOR) == 0) {
    png_set_expand_gray_1_2_4_to_8(png);
    png_set_gray_to_rgb(png);
  }
  png_set_scale_16(png);
  png_set_strip_alpha(png);
  png_set_interlace_handling(png);
  png_read_update_info(png, info);
}

bool read_pixels(PngDecoder& decoder, png_bytepp rows, std::size_t row_bytes) {
  if (setjmp(decoder.jump) != 0) return false;
  prefetch_bytes(decoder.png, decoder.info);
  if (png_get_rowbytes(decoder.png, decoder.info) != row_bytes) {
    png_error(decoder.png, "unknown kind of pixels");
  }
  png_read_image(decoder.png, rows);
  png_read_end(decoder.png, nullptr);
  return true;
}

[[noreturn]] void fail_with(const PngDecoder& decoder, std::string_view name) {
  fail<FileError>("images", name, ": the PNG data is damaged or of an unknown kind: ",
                  std::string_view(decoder.text.data()), kCopyAgain);
}

bool has_palette(const PngDecoder& decoder) {
  return png_get_color_type(decoder.png, decoder.info) == PNG_COLOR_TYPE_PALETTE;
}

// Replaces the palette indices, with which each row begins, by their colours.
void look_up_colours(const PngDecoder& decoder, std::string_view name, Image& image) {
  png_colorp palette = nullptr;
  int colours = 0;
  png_get_PLTE(decoder.png, decoder.info, &palette, &colours);
  const auto width = static_cast<std::size_t>(image.shape[2]);
  for (std::size_t y = 0; y < static_cast<std::size_t>(image.shape[1]); ++y) {
    std::uint8_t* row = image.pixels.data() + y * width * 3;
    for (std::size_t x = width; x-- > 0;) {
      const std::uint8_t number = row[x];
      if (number >= colours) {
        fail<FileError>("images", name, ": the PNG data is damaged: pixel ", x, " of row ", y,
                        " has colour ", number, " of a palette of ", colours, kCopyAgain);
      }
      const png_color& colour = palette[number];
      std::ranges::copy(std::array{colour.red, colour.green, colour.blue}, row + 3 * x);
    }
  }
}

}  // namespace

Image detail::decode_png(std::span<const std::uint8_t> file, std::string_view name) {
  PngDecoder decoder(file);
  if (!read_header(decoder)) fail_with(decoder, name);
  Image image;
  take_claimed_shape({.height = png_get_image_height(decoder.png, decoder.info),
                      .width = png_get_image_width(decoder.png, decoder.info),
                      .file_bytes = file.size()},
                     name, image);
  const auto width = static_cast<std::size_t>(image.shape[2]);
  std::vector<png_bytep> rows;
  for (std::size_t y = 0; y < static_cast<std::size_t>(image.shape[1]); ++y) {
    rows.push_back(image.pixels.data() + y * width * 3);
  }
  const bool is_by_number = has_palette(decoder);
  if (!read_pixels(decoder, rows.data(), is_by_number ? width : width * 3)) {
    fail_with(decoder, name);
  }
  if (is_by_number) look_up_colours(decoder, name, image);
  return image;
}

}  // namespace mezzo::data
