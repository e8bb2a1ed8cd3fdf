// The plan of a convolution on the tile unit: where pixels lie, and which thread computes what.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "mezzo/core/math.h"
#include "mezzo/kernels/cpu/conv/problem.h"

namespace mezzo::kernels::direct {

// Pixels that are computed together (the rows of two tiles), and channels: a row of a tile of the
// operands, a cache line of the result.
inline constexpr std::int64_t kStrip = 32;
inline constexpr std::int64_t kBlock = 32;

// Results along one axis that meet the same taps. A convolution has one phase; an input gradient
// with a stride has one per remainder.
struct AxisPhase {
  struct Tap {
    std::int64_t index = 0;
    std::int64_t shift = 0;  // result i of the phase reads pixel i + shift under this tap
    std::int64_t plane = 0;  // which plane it reads: the pixels of one remainder by the stride
  };
  std::int64_t first = 0, count = 0;
  std::vector<Tap> taps{};
};

// All images, one below the other. Zeros separate rows and images, as many as either end of a row,
// or of an image, needs. The pixel that a result reads under a tap is then a constant number of
// positions away, across the ends of rows and images. Positions that are not results are computed,
// too, and dropped. A convolution with a stride reads several planes; each has the pixels of one
// remainder by the stride.
struct TallImage {
  std::int64_t images = 0;
  Size2d whole{};                // of an image
  Size2d apart{1};               // between pixels of a plane
  Size2d size{};                 // of an image in a plane; some planes lack the last row or column
  std::vector<Size2d> planes{};  // the first pixel of each that is read
  Sides padding{};               // that the results read
  Size2d most{};                 // the most results of an image in a phase
  Size2d rows_after{};  // h: rows below a result that are read for it; w: positions after those

  std::int64_t pitch() const { return size.w + std::max(padding.left, padding.right); }
  std::int64_t image_rows() const { return size.h + std::max(padding.top, padding.bottom); }
  std::int64_t result_rows() const { return (images - 1) * image_rows() + most.h; }

  static constexpr std::int64_t kNone = -1;
  // The row, counted over all images, at row `t` of a plane, or kNone for zeros.
  std::int64_t row_read(std::int64_t t, const Size2d& plane) const;
};

// Results that meet the same taps, and their places among all results.
struct Phase {
  struct Tap {
    std::int64_t index = 0;  // in the weight
    std::int64_t plane = 0;  // plane that it reads
    std::int64_t step = 0;   // distance in the copy from the result's position
  };
  std::vector<Tap> taps{};  // empty: the results are zero
  Size2d first{}, count{};
};

// How a call is computed. No result depends on how the work is divided.
struct Plan {
  TallImage image;
  std::vector<Phase> phases{};
  Size2d results{};  // of an image
  Size2d stride{};   // from one result of a phase to the next
  std::int64_t taps = 0;
  std::int64_t inner = 0, outer = 0;  // channels, multiples of kBlock
  // Channels that are summed together. The pixels of a strip under all taps stay in the first-level
  // cache while they meet many columns of the result.
  std::int64_t panel = 0;
  std::int64_t columns = 0;  // columns whose weight stays in the second-level cache
  std::int64_t band = 0;     // rows of results whose pixels stay there
  std::int64_t share = 0;    // columns of a band that one thread computes

  // True if no two results of a phase share a position.
  bool is_possible() const;
  std::int64_t bands() const { return ceil_div(image.result_rows(), band); }
  std::int64_t shares() const { return ceil_div(outer, share); }
  // Positions in a plane of a band's copy, including those that its last strip reads and drops.
  std::int64_t positions() const;
  // The pixel of a phase's first result in row `t` of the tall image, or TallImage::kNone between
  // images.
  std::int64_t pixel_of_row(const Phase& phase, std::int64_t t) const;
};

// The plan of a conv2d or of its input gradient.
Plan plan_for(const conv::Problem& problem, int threads);

}  // namespace mezzo::kernels::direct
