// How per-channel kernels see a tensor [n, c] or channels-last [n, c, h, w]: as rows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "mezzo/core/math.h"
#include "mezzo/core/parallel.h"
#include "mezzo/core/tensor.h"

namespace mezzo::kernels {

// The pixels of a tensor, each with all its channels, as rows. Several pixels may form one row, so
// that a row fills whole vectors whatever the number of channels: 3 channels and 16 lanes give rows
// of 16 pixels, in which vector i always holds the same channels. The last row may be incomplete.
struct ChannelRows {
  std::int64_t channels = 0;
  std::int64_t pixels = 0;
  std::int64_t fold = 1;  // pixels of a row
  int parts = 1;          // ranges of rows, one per thread

  ChannelRows(const Shape& shape, std::int64_t lanes, std::int64_t grain)
      : channels(shape[1]), pixels(channels > 0 ? shape.numel() / channels : 0) {
    // Beyond this many channels, the incomplete vector at the end of a pixel costs little. And the
    // per-channel arrays of a folded row would no longer fit in the first-level cache.
    constexpr std::int64_t kMostFolded = 1024;
    // Short rows would cost more in loop control than in arithmetic.
    constexpr std::int64_t kShortRow = 256;
    if (channels > 0 && channels < kMostFolded) fold = lanes / std::gcd(lanes, channels);
    while (channels > 0 && fold * channels < kShortRow && fold * 2 <= pixels) fold *= 2;
    // A part without rows would have an undefined mean.
    const std::int64_t most =
        std::clamp<std::int64_t>(shape.numel() / grain, 1, std::max<std::int64_t>(rows(), 1));
    parts = static_cast<int>(std::min<std::int64_t>(most, num_threads()));
  }

  std::int64_t width() const { return fold * channels; }
  std::int64_t rows() const { return ceil_div(pixels, fold); }
  // Part p is the rows [first_row(p), first_row(p + 1)).
  std::int64_t first_row(int part) const { return rows() * part / parts; }
  std::int64_t first_pixel(int part) const { return std::min(first_row(part) * fold, pixels); }
  // The elements of a row.
  std::int64_t count(std::int64_t row) const {
    return std::min(fold, pixels - row * fold) * channels;
  }
};

// The length of an f32 array with a value for each element of a row, rounded up to whole vectors of
// any instruction set.
inline std::int64_t row_array_length(const ChannelRows& rows) {
  constexpr std::int64_t kMostLanes = 16;
  return round_up(rows.width(), kMostLanes);
}

}  // namespace mezzo::kernels
