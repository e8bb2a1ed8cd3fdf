// How the weight gradient of a convolution is cut into products that vector and tile units can do:
// the geometry, without any arithmetic on tensors.
//
//   dw[o][tap][i] = sum over output pixels q of dy[q][o] * x[input pixel of q and tap][i]
//
// The input is seen as `stride` x `stride` planes, one for each remainder of the row and the
// column. Within a plane, the input pixel of (q, tap) is q plus an offset that depends on the tap
// alone, for every stride and dilation. Planes are copied with their padding, in panels of 16
// channels, so that the sum over q runs through contiguous memory.
#pragma once

#include <cstdint>
#include <vector>

#include "mezzo/ops/conv2d_attrs.h"

namespace mezzo::kernels::grad_weight {

inline constexpr std::int64_t kPanel = 16;  // channels of a panel; also rows and columns of a tile

// The kind of products: what a 32-bit element of a copied panel holds.
enum class Products : std::uint8_t {
  kF32,    // one value, widened to f32
  kPairs,  // bf16 values of two pixels, for the vector unit's dot product
  kTiles,  // the same pairs for the tile unit (AMX), dy transposed in blocks of 16 x 16
};

inline bool is_paired(Products products) { return products != Products::kF32; }

// How rows are stored of images with joined columns: the contiguous pixels under a row of the
// kernel are one pixel (grad_weight_columns.h).
struct JoinedColumns {
  std::int64_t columns = 0;  // of the kernel; 0: pixels are as stored
  std::int64_t pixels = 0;   // of a stored row
  std::int64_t channels = 0;
  std::int64_t stride = 1, step = 1, left = 0;  // strides of reads and of columns; padding

  // The stored pixel under the first column of pixel q; it may lie in the padding.
  std::int64_t first(std::int64_t q) const { return q * stride - left; }
};

struct Problem {
  std::int64_t images = 0;
  std::int64_t in_channels = 0, out_channels = 0;
  Size2d x{}, y{}, kernel{};  // sizes of the images and of the kernel
  Conv2dAttrs attrs{};
  Products products = Products::kF32;
  JoinedColumns joined{};
  // The result is laid out as [o][kh][kw][c]: the channels of each tap are contiguous.
  bool channels_last = false;

  // Whether tiles read each pixel of the images once. All images can then be treated as one, each
  // below the one before.
  bool is_flat() const {
    return products == Products::kTiles && joined.columns == 0 && attrs.is_pointwise(kernel) &&
           attrs.stride == Size2d(1);
  }

  // Elements from one stored row of the images to the next.
  std::int64_t x_row() const {
    return joined.columns > 0 ? joined.pixels * joined.channels : x.w * in_channels;
  }
};

// One or two images, or the two halves of one, whose pixels are summed in pairs.
struct Slot {
  std::int64_t image[2] = {0, -1};  // -1: none
  std::int64_t first_row[2] = {0, 0};
  std::int64_t rows[2] = {0, 0};  // rows[0] >= rows[1]
};

// The slots [first_slot, end_slot), and of each the rows [first_row, end_row) of its first image.
struct Chunk {
  std::int64_t first_slot = 0, end_slot = 0;
  std::int64_t first_row = 0, end_row = 0;

  std::int64_t slots() const { return end_slot - first_slot; }
  std::int64_t rows() const { return end_row - first_row; }
};

// The remainders of the input row and column that a plane holds.
struct Plane {
  std::int64_t row = 0, col = 0;
  bool operator==(const Plane&) const = default;
};

struct Tap {
  std::int64_t plane = 0;   // index into Plan::planes
  std::int64_t offset = 0;  // in pixels of a plane
};

struct Plan {
  explicit Plan(const Problem& problem, int threads);

  Problem problem;
  std::vector<Slot> slots;
  std::vector<Plane> planes;
  std::vector<Tap> taps;  // row by row
  std::vector<Chunk> chunks;
  std::int64_t in_panels = 0, out_panels = 0;
  std::int64_t first_shift_row = 0, first_shift_col = 0;  // the planes' first row and column
  std::int64_t halo = 0;                                  // rows of a plane beyond those of y
  std::int64_t pitch = 0;                                 // pixels in a plane's row
  // How the work is divided: chunks into `chunk_parts`, panels of input and output channels into
  // `in_parts` and `out_parts`.
  std::int64_t chunk_parts = 1, in_parts = 1, out_parts = 1;

  // Groups of 16 rows of the transposed result: one for each (input panel, tap).
  std::int64_t vectors() const { return in_panels * static_cast<std::int64_t>(taps.size()); }
  // True if there are as many sums as weights, so that they can lie in the result's memory.
  bool sums_fit_weight() const;
  // True if the sums of whole panels, one after the other, are the weight [o][tap][i] itself.
  bool sums_are_weight() const;
  // Elements of all sums, [chunk part][panel][vector][16][16], or of the weight.
  std::int64_t sum_count() const;
  // Where the sums of a panel of output channels and a vector begin; sum_row() is their row stride.
  std::int64_t sums_at(std::int64_t chunk_part, std::int64_t out_panel, std::int64_t in_panel,
                       std::int64_t tap) const;
  std::int64_t sum_row() const { return sums_are_weight() ? weight_row() : kPanel; }
  // Pixels in one slot's plane, including those that a tile may read beyond the last one.
  std::int64_t plane_pixels(const Chunk& chunk) const;
  // Pixels of one slot of dy: with contiguous rows, or at the planes' pitch and in whole tiles.
  std::int64_t grad_pixels(const Chunk& chunk) const;
  // The most 32-bit elements that a chunk takes for that many panels.
  std::int64_t most_x(std::int64_t panels) const;
  std::int64_t most_grad(std::int64_t panels) const;

 private:
  std::int64_t weight_row() const {
    return static_cast<std::int64_t>(taps.size()) * problem.in_channels;
  }
  void place_taps();
  void pair_images();
  void cut_chunks(int parts);
  void divide(int threads);
  void divide_panels(std::int64_t parts);
};

}  // namespace mezzo::kernels::grad_weight
