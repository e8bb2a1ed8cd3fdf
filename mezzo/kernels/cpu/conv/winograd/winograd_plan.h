// Winograd's method for 3x3 kernels at stride 1: the arithmetic and the memory layout.
//
// Results are made in tiles of 4x4 pixels, each from the 6x6 pixels of the image that it depends
// on. Seen as polynomials, a tile's results are products that are known from their values at 6x6
// points. So the image's tile and the kernel are transformed to those values and multiplied point
// by point, and the products are transformed back. That takes 36 multiply-adds where direct sums
// take 144. Over many channels, each point is one matrix product. (Lavin and Gray, "Fast algorithms
// for convolutional neural networks", 2015.)
//
// The length of a row or column may not be a multiple of four. A tile at its end then has as few
// results as are left, and only the points that they need. These are among the points of whole
// tiles, so that all tiles meet the same kernels.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "mezzo/core/math.h"
#include "mezzo/kernels/cpu/conv/grad_weight/grad_weight_plan.h"
#include "mezzo/ops/conv2d_attrs.h"

namespace mezzo::kernels::winograd {

// Adjacent channels in transformed tiles; weight gradients use grad_weight's multiplication of
// panels.
using grad_weight::kPanel;

inline constexpr int kTaps = 3;                     // of a kernel, along each axis
inline constexpr int kResults = 4;                  // of a tile, along each axis
inline constexpr int kTile = kResults + kTaps - 1;  // pixels of the image for these
inline constexpr int kPoints = kTile * kTile;
// Columns of a matrix product that are computed at a time.
inline constexpr std::int64_t kColumns = 32;

// The points along an axis for tiles of 0 to 4 results: indices into 0, a, -a, b, -b and infinity
// (winograd-inl.h).
constexpr int points_for(int results) { return results + kTaps - 1; }
inline constexpr int kPointsFor[kResults + 1][kTile] = {
    {}, {0, 1, 5}, {0, 1, 2, 5}, {0, 1, 2, 3, 5}, {0, 1, 2, 3, 4, 5}};
constexpr bool has_point(int results, int point) {
  for (int i = 0; i < points_for(results); ++i) {
    if (kPointsFor[results][i] == point) return true;
  }
  return false;
}

// The distance between points, in floats. A tile's 36 values are written at that distance. It is an
// odd number of cache lines: at a power of two, they would meet in one set of the cache.
constexpr std::int64_t point_distance(std::int64_t floats) {
  constexpr std::int64_t kLine = 16;
  return (ceil_div(floats, kLine) | 1) * kLine;
}

// The layout of an image's transformed tiles: [point][panel][tile][kPanel].
struct TileCopies {
  std::int64_t panels = 0, tiles = 0;

  TileCopies(std::int64_t channels, std::int64_t tile_count)
      : panels(ceil_div(channels, kPanel)), tiles(tile_count) {}
  std::int64_t panel() const { return tiles * kPanel; }
  std::int64_t point() const { return point_distance(panels * panel()); }
  std::int64_t floats() const { return kPoints * point(); }
};

// The layout of matrices in blocks of kColumns outputs, one matrix per point. A transformed weight
// [in][out] is [point][block][in][kColumns]; its products are [point][block][tile][kColumns].
struct Blocks {
  std::int64_t blocks = 0, rows = 0;

  constexpr Blocks(std::int64_t columns, std::int64_t row_count)
      : blocks(ceil_div(columns, kColumns)), rows(row_count) {}
  constexpr std::int64_t block() const { return rows * kColumns; }
  constexpr std::int64_t point() const { return point_distance(blocks * block()); }
  constexpr std::int64_t floats() const { return kPoints * point(); }
};

// A tile: where its first result is, and its results along each axis.
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
  Size2d image{};                  // image of which tiles of up to 6x6 are read
  Size2d results{};                // divided into tiles of up to 4x4
  std::int64_t top = 0, left = 0;  // rows and columns of padding before the image

  std::int64_t rows() const { return ceil_div(results.h, kResults); }
  std::int64_t columns() const { return ceil_div(results.w, kResults); }
  std::int64_t tiles() const { return images * rows() * columns(); }
  // Points of all tiles of an image.
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

// Some of the tiles, ordered so that those with the same points are adjacent.
class TileGroups {
 public:
  // The tiles [begin, end).
  TileGroups(const Tiling& tiling, std::int64_t begin, std::int64_t end);

  const std::vector<Tile>& tiles() const { return tiles_; }

  // Calls body(first, count) for the runs of adjacent tiles that have a point.
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
  // The ends of the groups of tiles: whole ones, fewer columns, fewer rows and columns, fewer rows.
  // The tiles with a given point form one or two runs.
  std::array<std::int64_t, 4> ends_{};
};

// A convolution, or an input gradient, which is a convolution of y's gradient.
struct Convolution {
  Tiling tiling{};
  std::int64_t in = 0, out = 0;  // channels
  bool turned = false;           // the weight is [in, out, 3, 3] and read backwards

  Blocks weight() const { return {out, in}; }
  // True if the transformed weight is not much smaller than all transformed tiles, and has a block
  // for every thread.
  bool has_large_weight(int threads) const;
  // Outputs whose transformed weight is in memory at a time, a multiple of kColumns.
  std::int64_t outputs_at_a_time() const;
  // Tiles whose transforms are in memory at a time, if threads share them.
  std::int64_t tiles_in_memory() const;
  // Tiles that one thread transforms, multiplies and transforms back at a time.
  std::int64_t tiles_at_a_time(int threads) const;
};

// The weight gradient.
struct WeightGradient {
  Tiling tiling{};
  std::int64_t in = 0, out = 0;  // channels

  // The number of parts of the tiles that have sums of their own, each summed by one thread. It is
  // more than one if the sums stay in a thread's second-level cache.
  std::int64_t parts() const;
  // True if the sums are larger than all transformed tiles and have many outputs, so that threads
  // divide the outputs.
  bool has_large_sums() const;
  // Tiles that are transformed and multiplied at a time: of a part, or of all tiles if threads
  // share them.
  std::int64_t tiles_at_a_time() const;
  // Panels of outputs whose sums are in memory at a time, if threads share the tiles.
  std::int64_t panels_at_a_time() const;
};

}  // namespace mezzo::kernels::winograd
