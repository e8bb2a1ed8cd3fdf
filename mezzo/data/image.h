// A picture in memory: bytes, rows from the top, channels innermost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "mezzo/core/shape.h"
#include "mezzo/core/tensor.h"

namespace mezzo::data {

// The most pixels that a picture may have. A file may claim up to this many, which take 201 MB of
// memory in colour.
inline constexpr std::int64_t kMaxPixels = std::int64_t{1} << 26;

// Pixels owned by someone else: a picture or a rectangle of one.
struct ImageView {
  const std::uint8_t* pixels = nullptr;
  std::int64_t channels = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t row_bytes = 0;  // from one row to the next

  Shape shape() const { return {channels, height, width}; }
  const std::uint8_t* row(std::int64_t y) const { return pixels + y * row_bytes; }
  // The rectangle with that corner and size, which must lie inside.
  ImageView window(std::int64_t top, std::int64_t left, std::int64_t rows,
                   std::int64_t columns) const {
    return {row(top) + left * channels, channels, rows, columns, row_bytes};
  }
};

// The view of dense pixels with shape [channels, height, width].
inline ImageView view_of(const std::uint8_t* pixels, const Shape& shape) {
  return {pixels, shape[0], shape[1], shape[2], shape[2] * shape[0]};
}

struct Image {
  Shape shape{};  // [channels, height, width]
  std::vector<std::uint8_t> pixels{};

  // Sets the shape and resizes the pixels, which keep arbitrary values.
  void reshape(const Shape& to) {
    shape = to;
    pixels.resize(static_cast<std::size_t>(to.numel()));
  }
  ImageView view() const { return view_of(pixels.data(), shape); }
};

// HWC to CHW: the same elements with the last axis first, [h, w, c] as [c, h, w] and [n, h, w, c]
// as [n, c, h, w]. Nothing is copied: the view of a dense batch is channels-last, the format that
// convolutions prefer. Throws ArgumentError for other ranks.
Tensor hwc_to_chw(const Tensor& images);

}  // namespace mezzo::data
