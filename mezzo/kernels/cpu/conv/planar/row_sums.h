// Input gradients row by row. A pixel of the result's gradient adds kernel.w * channels contiguous
// values to a row of the image, a piece. Vectors of them are full where a vector of the channels
// alone would be mostly empty.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "mezzo/core/math.h"
#include "mezzo/ops/window.h"

namespace mezzo::kernels::row_sums {

struct Problem {
  std::int64_t images = 0, channels = 0, out_channels = 0;
  Size2d image{}, result{}, kernel{}, stride{};
  Sides padding{};
  bool by_dots = false;  // multiplies pairs of bf16 channels of the result

  // The number of values that a pixel adds to a row.
  std::int64_t piece() const { return kernel.w * channels; }
  // Multiply-adds for each of those values and row of the kernel.
  std::int64_t steps() const { return by_dots ? (out_channels + 1) / 2 : out_channels; }
  // Pixels of a row of the padded image, up to the end of the pieces or of the image.
  std::int64_t row_pixels() const {
    return std::max((result.w - 1) * stride.w + kernel.w, padding.left + image.w);
  }
};

// A row of the result's gradient and the row of the kernel that it meets.
struct Tap {
  const char* pixels = nullptr;
  const char* weight = nullptr;  // [vector of a piece][step]
};

// The sum that makes up one row of an image: all taps, added to zeros.
struct RowSum {
  std::vector<Tap> taps;
  std::int64_t pixels = 0, pixel_bytes = 0;
  std::int64_t steps = 0;
  std::int64_t vectors = 0;  // per piece
  std::int64_t last = 0;     // used values of the last vector
  float* row = nullptr;      // whole vectors are written at its end
  std::int64_t apart = 0;    // values from a pixel's piece to the next one's
};

// A block of sums that are in registers together.
struct Block {
  std::int64_t pixel = 0, vector = 0;
};
inline constexpr int kBlockVectors = 2;

// Calls body.operator()<pixels, kVectors>(block) for that many pixels, at most kPixels.
template <int kPixels, int kVectors, class Body>
void for_block(std::int64_t pixels, const Block& block, const Body& body) {
  if constexpr (kPixels > 1) {
    if (pixels < kPixels) return for_block<kPixels - 1, kVectors>(pixels, block, body);
  }
  body.template operator()<kPixels, kVectors>(block);
}

// Calls body for blocks of a row with about the same number of pixels: a small block would wait for
// its sums.
template <int kPixels, int kVectors, class Body>
void for_blocks_of(const RowSum& sum, std::int64_t vector, const Body& body) {
  for (std::int64_t pixel = 0; pixel < sum.pixels;) {
    const std::int64_t left = sum.pixels - pixel;
    const std::int64_t blocks = ceil_div(left, kPixels);
    const std::int64_t count = ceil_div(left, blocks);
    for_block<kPixels, kVectors>(count, {pixel, vector}, body);
    pixel += count;
  }
}

// Calls body for blocks of at most kPixels pixels that cover a row and its pieces.
template <int kPixels, class Body>
void for_blocks(const RowSum& sum, const Body& body) {
  std::int64_t vector = 0;
  for (; vector + kBlockVectors <= sum.vectors; vector += kBlockVectors) {
    for_blocks_of<kPixels, kBlockVectors>(sum, vector, body);
  }
  if (vector < sum.vectors) for_blocks_of<kPixels, 1>(sum, vector, body);
}

// By bf16 dot products of AVX512-BF16.
void add_row_by_dots(const RowSum& sum);

}  // namespace mezzo::kernels::row_sums
