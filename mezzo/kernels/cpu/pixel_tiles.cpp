#include <algorithm>
#include <atomic>

#include "mezzo/core/tensor.h"
#include "mezzo/kernels/cpu/column_sums-inl.h"
#include "mezzo/kernels/cpu/pixel_strips.h"
#include "mezzo/kernels/cpu/tiles-inl.h"

namespace mezzo::kernels::pixels {

#if MEZZO_TILES

namespace {

// The sums of two by two tiles.
struct alignas(64) TileSums {
  float tiles[4][kTileRows * kTileRows];
};

MEZZO_TILE_TARGET void add_up(const Product& p, const BFloat16* rows, std::int64_t column,
                              TileSums& sums) {
  const std::int64_t blocks = p.inner / kBlock;
  const char* left = p.weight + column / kTileRows * blocks * kTileBytes;
  const char* right = left + blocks * kTileBytes;
  const std::int64_t pitch = p.inner * 2;
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (std::int64_t block = 0; block < blocks; ++block) {
    const BFloat16* x = rows + block * kBlock;
    _tile_loadd(4, x, pitch);
    _tile_loadd(6, left + block * kTileBytes, kTileRowBytes);
    _tile_loadd(7, right + block * kTileBytes, kTileRowBytes);
    _tile_loadd(5, x + kTileRows * p.inner, pitch);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, sums.tiles[0], kTileRowBytes);
  _tile_stored(1, sums.tiles[1], kTileRowBytes);
  _tile_stored(2, sums.tiles[2], kTileRowBytes);
  _tile_stored(3, sums.tiles[3], kTileRowBytes);
}

// Row r of the sums.
MEZZO_TILE_TARGET inline __m512i rounded_row(const TileSums& sums, std::int64_t r) {
  const std::int64_t half = r / kTileRows * 2;
  const std::int64_t at = r % kTileRows * kTileRows;
  return rounded_line(_mm512_load_ps(sums.tiles[half] + at),
                      _mm512_load_ps(sums.tiles[half + 1] + at));
}

// `rows` are those of x, as many as two tiles read.
MEZZO_TILE_TARGET void compute(const Product& p, const Strip& strip, const BFloat16* rows,
                               const NormPart* part) {
  // The tile loads do not tell the compiler that they read memory.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  TileSums sums;
  for (std::int64_t column = strip.column; column < strip.end_column; column += kBlock) {
    add_up(p, rows, column, sums);
    BFloat16* y = p.y + strip.row * p.outer + column;
    if (part == nullptr) {
      for (std::int64_t r = 0; r < strip.rows; ++r, y += p.outer) {
        _mm512_storeu_si512(y, rounded_row(sums, r));
      }
      continue;
    }
    ColumnSums columns(*part, column);
    for (std::int64_t r = 0; r < strip.rows; ++r, y += p.outer) {
      const __m512i row = rounded_row(sums, r);
      _mm512_storeu_si512(y, row);
      columns.add(row);
    }
    columns.keep();
  }
}

}  // namespace

void compute_on_tiles(const Product& p, const Strip& strip, const NormPart* part) {
  const BFloat16* const rows = p.x + strip.row * p.inner;
  if (strip.rows == rows_of_strip(Unit::kTiles)) return compute(p, strip, rows, part);
  // The last rows, of which there are too few, with others behind them.
  const Tensor copy = zeros({rows_of_strip(Unit::kTiles), p.inner}, DType::kBf16);
  std::copy_n(rows, strip.rows * p.inner, copy.mutable_data<BFloat16>());
  compute(p, strip, copy.data<BFloat16>(), part);
}

#else

void compute_on_tiles(const Product&, const Strip&, const NormPart*) {}

#endif

}  // namespace mezzo::kernels::pixels
