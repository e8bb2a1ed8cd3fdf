// Sums of two by two tiles, which stay in tile registers 0 to 3 while products are added.
#pragma once

#include <cstdint>

#include "mezzo/core/half.h"
#include "mezzo/kernels/cpu/gemm/column_sums-inl.h"
#include "mezzo/kernels/cpu/gemm/tiles-inl.h"

#if MEZZO_TILES

namespace mezzo::kernels {

struct alignas(64) TileSums {
  float tiles[4][kTileRows * kTileRows];
};

MEZZO_TILE_TARGET inline void clear_sums() {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
}

MEZZO_TILE_TARGET inline void load_sums(const TileSums& sums) {
  _tile_loadd(0, sums.tiles[0], kTileRowBytes);
  _tile_loadd(1, sums.tiles[1], kTileRowBytes);
  _tile_loadd(2, sums.tiles[2], kTileRowBytes);
  _tile_loadd(3, sums.tiles[3], kTileRowBytes);
}

MEZZO_TILE_TARGET inline void store_sums(TileSums& sums) {
  _tile_stored(0, sums.tiles[0], kTileRowBytes);
  _tile_stored(1, sums.tiles[1], kTileRowBytes);
  _tile_stored(2, sums.tiles[2], kTileRowBytes);
  _tile_stored(3, sums.tiles[3], kTileRowBytes);
}

// Adds the products of 32 rows of 32 elements, `width` elements apart, with two tiles of the weight
// that lie `between` bytes apart.
MEZZO_TILE_TARGET inline void add_products(const BFloat16* rows, std::int64_t width,
                                           const char* weight, std::int64_t between) {
  _tile_loadd(4, rows, 2 * width);
  _tile_loadd(6, weight, kTileRowBytes);
  _tile_loadd(7, weight + between, kTileRowBytes);
  _tile_loadd(5, rows + kTileRows * width, 2 * width);
  _tile_dpbf16ps(0, 4, 6);
  _tile_dpbf16ps(1, 4, 7);
  _tile_dpbf16ps(2, 5, 6);
  _tile_dpbf16ps(3, 5, 7);
}

// Row r of the sums, rounded to a line of the result.
MEZZO_TILE_TARGET inline __m512i rounded_row(const TileSums& sums, std::int64_t r,
                                             const pixels::ColumnBias& bias) {
  const std::int64_t half = r / kTileRows * 2;
  const std::int64_t at = r % kTileRows * kTileRows;
  return bias.rounded_line(_mm512_load_ps(sums.tiles[half] + at),
                           _mm512_load_ps(sums.tiles[half + 1] + at));
}

}  // namespace mezzo::kernels

#endif
