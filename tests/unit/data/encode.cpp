#include "tests/unit/data/encode.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

#include <jpeglib.h>
#include <png.h>
#include <zlib.h>

namespace mezzo::data {
namespace {

J_COLOR_SPACE color_space_of(const Image& image) {
  switch (image.shape[0]) {
    case 1: return JCS_GRAYSCALE;
    case 4: return JCS_CMYK;
    default: return JCS_RGB;
  }
}

void make_progressive(jpeg_compress_struct& info) {
  static const jpeg_scan_info kGreyScans[] = {{1, {0}, 0, 0, 0, 0}, {1, {0}, 1, 63, 0, 0}};
  jpeg_simple_progression(&info);
  if (info.num_components != 1) return;
  info.scan_info = kGreyScans;
  info.num_scans = 2;
}

void append_to(png_structp png, png_bytep bytes, std::size_t count) {
  auto* out = static_cast<Bytes*>(png_get_io_ptr(png));
  out->insert(out->end(), bytes, bytes + count);
}

void set_palette(png_structp png, png_infop info, int colours) {
  std::vector<png_color> palette;
  for (int i = 0; i < colours; ++i) {
    palette.push_back(
        {static_cast<png_byte>(i), static_cast<png_byte>(255 - i), static_cast<png_byte>(i / 2)});
  }
  png_set_PLTE(png, info, palette.data(), colours);
  png_set_check_for_invalid_index(png, 0);  // invalid files are wanted, too
}

}  // namespace

Bytes encode_jpeg(const Image& image, const JpegOptions& options) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* buffer = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &buffer, &size);
  info.image_height = static_cast<JDIMENSION>(image.shape[1]);
  info.image_width = static_cast<JDIMENSION>(image.shape[2]);
  info.input_components = static_cast<int>(image.shape[0]);
  info.in_color_space = color_space_of(image);
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, options.quality, TRUE);
  for (int i = 0; i < info.num_components; ++i) {
    info.comp_info[i].h_samp_factor = info.comp_info[i].v_samp_factor = 1;
  }
  if (options.progressive) make_progressive(info);
  if (!options.adobe) info.write_Adobe_marker = FALSE;
  jpeg_start_compress(&info, TRUE);
  for (std::int64_t y = 0; y < image.shape[1]; ++y) {
    Bytes line(image.view().row(y), image.view().row(y) + image.view().row_bytes);
    JSAMPROW row = line.data();
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  Bytes file(buffer, buffer + size);
  std::free(buffer);
  return file;
}

Bytes encode_png(const Bytes& rows, std::uint32_t height, std::uint32_t width,
                 const PngOptions& options) {
  Bytes file;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(png, &file, append_to, nullptr);
  png_set_IHDR(png, info, width, height, options.bit_depth, options.color_type,
               options.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  if (options.color_type == PNG_COLOR_TYPE_PALETTE) set_palette(png, info, options.colours);
  png_write_info(png, info);
  Bytes bytes = rows;
  std::vector<png_bytep> lines;
  for (std::size_t y = 0; y < height; ++y) lines.push_back(&bytes[y * (bytes.size() / height)]);
  png_write_image(png, lines.data());
  png_write_end(png, nullptr);
  png_destroy_write_struct(&png, &info);
  return file;
}

Bytes encode_png(const Image& image) {
  return encode_png(image.pixels, static_cast<std::uint32_t>(image.shape[1]),
                    static_cast<std::uint32_t>(image.shape[2]));
}

namespace {

void put_number(Bytes& bytes, std::uint32_t number, int count, bool low_first) {
  for (int i = 0; i < count; ++i) {
    bytes.push_back(static_cast<std::uint8_t>(number >> 8 * (low_first ? i : count - 1 - i)));
  }
}

}  // namespace

Bytes exif_of(int orientation, bool low_first) {
  Bytes bytes(2, low_first ? 'I' : 'M');
  const auto put = [&](std::uint32_t number, int count) {
    put_number(bytes, number, count, low_first);
  };
  put(42, 2);
  put(10, 4);  // the offset of the directory, which need not follow at once
  put(0, 2);
  put(2, 2);  // entries: the resolution's unit, then the orientation
  for (const auto& [tag, value] : {std::pair{0x0128, 2}, std::pair{0x0112, orientation}}) {
    put(static_cast<std::uint32_t>(tag), 2);
    put(3, 2);
    put(1, 4);
    put(static_cast<std::uint32_t>(value), 2);
    put(0, 2);
  }
  put(0, 4);
  return bytes;
}

Bytes with_exif(const Bytes& file, const Bytes& exif) {
  Bytes part;
  std::size_t at = 2;  // after the first marker of the JPEG file
  if (file[0] == 0xFF) {
    part = {0xFF, 0xE1};
    put_number(part, static_cast<std::uint32_t>(exif.size() + 8), 2, false);
    for (const char letter : {'E', 'x', 'i', 'f', '\0', '\0'}) {
      part.push_back(static_cast<std::uint8_t>(letter));
    }
    part.insert(part.end(), exif.begin(), exif.end());
  } else {
    at = 33;  // after the header of the PNG file
    put_number(part, static_cast<std::uint32_t>(exif.size()), 4, false);
    for (const char letter : {'e', 'X', 'I', 'f'}) {
      part.push_back(static_cast<std::uint8_t>(letter));
    }
    part.insert(part.end(), exif.begin(), exif.end());
    const auto sum = crc32(0, part.data() + 4, static_cast<unsigned>(part.size() - 4));
    put_number(part, static_cast<std::uint32_t>(sum), 4, false);
  }
  Bytes whole = file;
  whole.insert(whole.begin() + static_cast<std::ptrdiff_t>(at), part.begin(), part.end());
  return whole;
}

}  // namespace mezzo::data
