// Convolutions on the tile unit: where pixels lie, and who computes which.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "mezzo/core/math.h"
#include "mezzo/kernels/cpu/conv/problem.h"

namespace mezzo::kernels::direct {

// Pixels that are computed together, two tiles' rows, and channels that are: of the operands what a
// tile's row holds, of the result a cache line.
inline constexpr std::int64_t kStrip = 32;
inline constexpr std::int64_t kBlock = 32;

// Results along one axis that meet the same taps: all of a convolution, those of one remainder of a
// gradient by the input at a stride.
struct AxisPhase {
  struct Tap {
    std::int64_t index = 0;
    std::int64_t shift = 0;  // result i of the phase reads pixel i + shift under it,
    std::int64_t plane = 0;  // of the pixels with this remainder by the stride
  };
  std::int64_t first = 0, count = 0;
  std::vector<Tap> taps{};
};

// All images, one below the other. Between rows lie as many zeros as either end of a row needs,
// between images as many rows of zeros: what is read under a tap is then a constant number of
// positions further on, across the ends of rows and images. Positions that are no results are
// computed, too, and dropped. A convolution at a stride reads several planes, each of the pixels
// with one remainder by the stride.
struct TallImage {
  std::int64_t images = 0;
  Size2d whole{};                // of an image
  Size2d apart{1};               // pixels of a plane
  Size2d size{};                 // of an image in a plane; some planes lack the last row or column
  std::vector<Size2d> planes{};  // the first pixel of each that is read
  Sides padding{};               // that its results read
  Size2d most{};                 // results of an image in a phase, at most
  Size2d rows_after{};  // h: rows below a result that are read for it, w: positions behind those

  std::int64_t pitch() const { return size.w + std::max(padding.left, padding.right); }
  std::int64_t image_rows() const { return size.h + std::max(padding.top, padding.bottom); }
  std::int64_t result_rows() const { return (images - 1) * image_rows() + most.h; }

  static constexpr std::int64_t kNone = -1;
  // The row of all images that lies in row `t` of a plane, or kNone where zeros do.
  std::int64_t row_read(std::int64_t t, const Size2d& plane) const;
};

// Results that meet the same taps, and their places among all results.
struct Phase {
  struct Tap {
    std::int64_t index = 0;  // in the weight
    std::int64_t plane = 0;  // that it reads
    std::int64_t step = 0;   // how many positions of the copy behind the result's it does
  };
  std::vector<Tap> taps{};  // none: the results are zero
  Size2d first{}, count{};
};

// How a call is computed. No result depends on how it is divided.
struct Plan {
  TallImage image;
  std::vector<Phase> phases{};
  Size2d results{};  // of an image
  Size2d stride{};   // from one result of a phase to the next
  std::int64_t taps = 0;
  std::int64_t inner = 0, outer = 0;  // channels, multiples of kBlock
  // Channels that are added up before others: their pixels under all taps of a strip stay in the
  // first-level cache while they meet many columns of the result.
  std::int64_t panel = 0;
  std::int64_t columns = 0;  // whose weight stays in the second-level cache
  std::int64_t band = 0;     // rows of results whose pixels do
  std::int64_t share = 0;    // columns that one thread computes of a band

  // True if no two results of a phase share a position.
  bool is_possible() const;
  std::int64_t bands() const { return ceil_div(image.result_rows(), band); }
  std::int64_t shares() const { return ceil_div(outer, share); }
  // Positions of a plane of a band's copy, those included that its last strip reads in vain.
  std::int64_t positions() const;
  // The pixel of the first result of a phase in row `t` of the tall image, or TallImage::kNone
  // between images.
  std::int64_t pixel_of_row(const Phase& phase, std::int64_t t) const;
};

// Of conv2d, or of its gradient by the input.
Plan plan_for(const conv::Problem& problem, int threads);

}  // namespace mezzo::kernels::direct
