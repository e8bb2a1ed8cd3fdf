// Winograd's method for 3x3 kernels at stride 1: what is multiplied, and how it lies in memory.
//
// Results are made in tiles of 4x4 pixels, each of the 6x6 pixels of the image that it depends on.
// Seen as polynomials, a tile's results are products that are known from their values at 6x6
// points: the image's tile and the kernel are brought to those values (transformed), multiplied
// point by point, 36 products where direct sums take 144, and brought back. Over many channels,
// each point is one matrix product. (Lavin and Gray, "Fast algorithms for convolutional neural
// networks", 2015.)
//
// At the end of a row or column that is no multiple of four, a tile has as few results as are left,
// and no more points than they need: they are some of the others' points, so that all tiles meet
// the same kernels.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "mezzo/core/math.h"
#include "mezzo/kernels/cpu/conv/grad_weight/grad_weight_plan.h"
#include "mezzo/ops/conv2d_attrs.h"

namespace mezzo::kernels::winograd {

// Channels side by side in transformed tiles: weight gradients are multiplied by the same kernels.
using grad_weight::kPanel;

inline constexpr int kTaps = 3;                     // of a kernel, along each axis
inline constexpr int kResults = 4;                  // of a tile, along each axis
inline constexpr int kTile = kResults + kTaps - 1;  // pixels of the image for them
inline constexpr int kPoints = kTile * kTile;
inline constexpr std::int64_t kColumns = 32;  // of a matrix product that are computed at a time

// Points along an axis that tiles of some results have, of 0, a, -a, b, -b and infinity (see
// winograd-inl.h).
constexpr int points_for(int results) { return results + kTaps - 1; }
inline constexpr int kPointsFor[kResults + 1][kTile] = {
    {}, {0, 1, 5}, {0, 1, 2, 5}, {0, 1, 2, 3, 5}, {0, 1, 2, 3, 4, 5}};
constexpr bool has_point(int results, int point) {
  for (int i = 0; i < points_for(results); ++i) {
    if (kPointsFor[results][i] == point) return true;
  }
  return false;
}

// Floats from the numbers of one point to those of the next. Those of a tile are written at that
// distance, 36 of them: an odd number of cache lines, so that they do not meet in one set of the
// cache, as they would at a power of two.
constexpr std::int64_t point_distance(std::int64_t floats) {
  constexpr std::int64_t kLine = 16;
  return (ceil_div(floats, kLine) | 1) * kLine;
}

// Transformed tiles of an image: [point][panel][tile][kPanel].
struct TileCopies {
  std::int64_t panels = 0, tiles = 0;

  TileCopies(std::int64_t channels, std::int64_t tile_count)
      : panels(ceil_div(channels, kPanel)), tiles(tile_count) {}
  std::int64_t panel() const { return tiles * kPanel; }
  std::int64_t point() const { return point_distance(panels * panel()); }
  std::int64_t floats() const { return kPoints * point(); }
};

// One of the matrices [in][out] of a transformed weight for each point, in blocks of kColumns
// outputs, [point][block][in][kColumns], or of the products with it,
// [point][block][tile][kColumns].
struct Blocks {
  std::int64_t blocks = 0, rows = 0;

  constexpr Blocks(std::int64_t columns, std::int64_t row_count)
      : blocks(ceil_div(columns, kColumns)), rows(row_count) {}
  constexpr std::int64_t block() const { return rows * kColumns; }
  constexpr std::int64_t point() const { return point_distance(blocks * block()); }
  constexpr std::int64_t floats() const { return kPoints * point(); }
};

// A tile by its first result, and its results along each axis.
struct Tile {
  std::int64_t image = 0, row = 0, column = 0;
  int rows = kResults, columns = kResults;

  bool has(int point) const {
    return has_point(rows, point / kTile) && has_point(columns, point % kTile);
  }
};

// The tiles of all images of a batch.
struct Tiling {
  std::int64_t images = 0;
  Size2d image{};                  // whose tiles of up to 6x6 are read
  Size2d results{};                // in tiles of up to 4x4
  std::int64_t top = 0, left = 0;  // rows and columns of padding before the image

  std::int64_t rows() const { return ceil_div(results.h, kResults); }
  std::int64_t columns() const { return ceil_div(results.w, kResults); }
  std::int64_t tiles() const { return images * rows() * columns(); }
  // Of an image.
  std::int64_t points() const {
    return (results.h + rows() * (kTaps - 1)) * (results.w + columns() * (kTaps - 1));
  }
  Tile tile(std::int64_t i) const {
    const std::int64_t row = i / columns() % rows() * kResults;
    const std::int64_t column = i % columns() * kResults;
    return {i / (rows() * columns()), row, column,
            static_cast<int>(std::min<std::int64_t>(kResults, results.h - row)),
            static_cast<int>(std::min<std::int64_t>(kResults, results.w - column))};
  }
};

// Some of the tiles, those with the same points side by side.
class TileGroups {
 public:
  // The tiles [begin, end).
  TileGroups(const Tiling& tiling, std::int64_t begin, std::int64_t end);

  const std::vector<Tile>& tiles() const { return tiles_; }

  // Calls body(first, count) for the tiles that have a point, as many as lie side by side at once.
  template <class Body>
  void for_tiles_with(int point, const Body& body) const {
    std::int64_t first = 0;
    std::int64_t end = 0;
    for (std::size_t group = 0; group < ends_.size(); ++group) {
      const std::int64_t group_end = ends_[group];
      if (group_end == end) continue;
      if (!tiles_[static_cast<std::size_t>(end)].has(point)) {
        if (end > first) body(first, end - first);
        first = group_end;
      }
      end = group_end;
    }
    if (end > first) body(first, end - first);
  }

 private:
  std::vector<Tile> tiles_;
  // Of the groups of tiles: whole ones, with fewer columns, with fewer rows and columns, with fewer
  // rows. Those with a point are one or two runs.
  std::array<std::int64_t, 4> ends_{};
};

// A convolution, or the gradient of one by its input: one too, of the gradient of y.
struct Convolution {
  Tiling tiling{};
  std::int64_t in = 0, out = 0;  // channels
  bool turned = false;           // the weight is [in, out, 3, 3], to be read backwards

  Blocks weight() const { return {out, in}; }
  // True if the transformed weight is not much smaller than all tiles' numbers, and has a block for
  // every thread.
  bool has_large_weight(int threads) const;
  // Outputs whose transformed weight is in memory at a time, a multiple of kColumns.
  std::int64_t outputs_at_a_time() const;
  // Tiles whose transformed numbers are in memory at a time, if threads share them.
  std::int64_t tiles_in_memory() const;
  // Tiles that one thread transforms, multiplies and brings back at a time.
  std::int64_t tiles_at_a_time(int threads) const;
};

// The gradient by the weight.
struct WeightGradient {
  Tiling tiling{};
  std::int64_t in = 0, out = 0;  // channels

  // Parts of the tiles that are added up by themselves, each by one thread: more than one where
  // their sums stay in its second-level cache.
  std::int64_t parts() const;
  // True if the sums are larger than all tiles' numbers, and of many outputs, so that each thread
  // takes some of those.
  bool has_large_sums() const;
  // Tiles of a part, or of all tiles if threads share them, that are transformed and multiplied at
  // a time.
  std::int64_t tiles_at_a_time() const;
  // Panels of outputs whose sums are in memory at a time if threads share the tiles.
  std::int64_t panels_at_a_time() const;
};

}  // namespace mezzo::kernels::winograd
