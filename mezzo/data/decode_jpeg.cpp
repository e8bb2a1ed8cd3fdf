#include <array>
#include <csetjmp>
#include <cstddef>
#include <cstdio>

#include <jerror.h>
#include <jpeglib.h>

#include "mezzo/core/error.h"
#include "mezzo/data/decode.h"

namespace mezzo::data {
namespace {

// A picture in more scans than this is an attack that costs time, not a picture.
constexpr int kMaxScans = 100;
// The limit of the library's own memory: two bytes for each coefficient of the largest progressive
// picture, and plenty for the rest.
constexpr long kMaxLibraryBytes = 1L << 30;

// Handles the library's errors: it calls these functions, which must not return, so they use
// longjmp(). The functions that are jumped out of, read_header() and read_pixels(), hold nothing
// that needs a destructor.
struct ErrorHandler {
  jpeg_error_mgr manager{};  // first: the library passes its address
  std::jmp_buf jump{};
  std::array<char, JMSG_LENGTH_MAX> text{};
};

[[noreturn]] void on_error(j_common_ptr info) {
  auto* handler = reinterpret_cast<ErrorHandler*>(info->err);
  info->err->format_message(info, handler->text.data());
  std::longjmp(handler->jump, 1);
}

// Negative levels are warnings that data is damaged. The network would be trained on whatever the
// library makes up instead, so they are errors. Warnings about harmless oddities are ignored.
void on_message(j_common_ptr info, int level) {
  if (level >= 0) return;
  switch (info->err->msg_code) {
    case JWRN_ADOBE_XFORM:
    case JWRN_EXTRANEOUS_DATA:
    case JWRN_JFIF_MAJOR: return;
    default: on_error(info);
  }
}

void on_output(j_common_ptr /*info*/) {}

void on_progress(j_common_ptr info) {
  const auto* decoder = reinterpret_cast<j_decompress_ptr>(info);
  if (decoder->input_scan_number <= kMaxScans) return;
  auto* handler = reinterpret_cast<ErrorHandler*>(info->err);
  std::snprintf(handler->text.data(), handler->text.size(), "more than %d scans", kMaxScans);
  std::longjmp(handler->jump, 1);
}

// A decoder, freed together with everything it holds.
struct JpegDecoder {
  JpegDecoder() {
    info.err = jpeg_std_error(&errors.manager);
    errors.manager.error_exit = on_error;
    errors.manager.emit_message = on_message;
    errors.manager.output_message = on_output;
    progress.progress_monitor = on_progress;
  }
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;
  ~JpegDecoder() { jpeg_destroy_decompress(&info); }

  jpeg_decompress_struct info{};
  ErrorHandler errors{};
  jpeg_progress_mgr progress{};
};

bool read_header(JpegDecoder& decoder, std::span<const std::uint8_t> file) {
  jpeg_decompress_struct& info = decoder.info;
  if (setjmp(decoder.errors.jump) != 0) return false;
  jpeg_create_decompress(&info);
  info.progress = &decoder.progress;
  info.mem->max_memory_to_use = kMaxLibraryBytes;
  jpeg_mem_src(&info, file.data(), file.size());
  jpeg_read_header(&info, TRUE);
  return true;
}

// The library converts everything to RGB except CMYK, which it leaves as it is.
bool is_cmyk(const jpeg_decompress_struct& info) {
  return info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK;
}

// Rows of 3 or 4 bytes per pixel, dense.
bool read_pixels(JpegDecoder& decoder, std::uint8_t* pixels) {
  jpeg_decompress_struct& info = decoder.info;
  if (setjmp(decoder.errors.jump) != 0) return false;
  info.out_color_space = is_cmyk(info) ? JCS_CMYK : JCS_RGB;
  jpeg_start_decompress(&info);
  const std::size_t row_bytes =
      std::size_t{info.output_width} * static_cast<std::size_t>(info.output_components);
  while (info.output_scanline < info.output_height) {
    JSAMPROW row = pixels + info.output_scanline * row_bytes;
    jpeg_read_scanlines(&info, &row, 1);
  }
  jpeg_finish_decompress(&info);
  return true;
}

// Light through several inks multiplies. Adobe's files, which nearly all are, store the transmitted
// light.
void inks_to_rgb(std::span<const std::uint8_t> inks, bool inverted,
                 std::span<std::uint8_t> pixels) {
  const auto light = [inverted](std::uint8_t ink) { return inverted ? ink : 255 - ink; };
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    const std::uint8_t* pixel = &inks[i / 3 * 4];
    const int product = light(pixel[i % 3]) * light(pixel[3]);
    pixels[i] = static_cast<std::uint8_t>((product + 127) / 255);
  }
}

[[noreturn]] void fail_with(const JpegDecoder& decoder, std::string_view name) {
  fail<FileError>("images", name, ": the JPEG data is damaged or of an unknown kind: ",
                  std::string_view(decoder.errors.text.data()), kCopyAgain);
}

}  // namespace

Image detail::decode_jpeg(std::span<const std::uint8_t> file, std::string_view name) {
  JpegDecoder decoder;
  if (!read_header(decoder, file)) fail_with(decoder, name);
  Image image;
  // Arithmetic coding can take less than a bit for a block, so such a file may claim any size.
  const std::size_t file_bytes =
      decoder.info.arith_code != 0 ? static_cast<std::size_t>(kMaxFileBytes) : file.size();
  take_claimed_shape({.height = decoder.info.image_height,
                      .width = decoder.info.image_width,
                      .file_bytes = file_bytes},
                     name, image);
  if (!is_cmyk(decoder.info)) {
    if (!read_pixels(decoder, image.pixels.data())) fail_with(decoder, name);
    return image;
  }
  std::vector<std::uint8_t> inks(image.pixels.size() / 3 * 4);
  if (!read_pixels(decoder, inks.data())) fail_with(decoder, name);
  inks_to_rgb(inks, decoder.info.saw_Adobe_marker != 0, image.pixels);
  return image;
}

}  // namespace mezzo::data
