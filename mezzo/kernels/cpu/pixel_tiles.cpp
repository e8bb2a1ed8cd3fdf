#include <algorithm>
#include <atomic>

#include "mezzo/core/tensor.h"
#include "mezzo/kernels/cpu/column_sums-inl.h"
#include "mezzo/kernels/cpu/pixel_strips.h"
#include "mezzo/kernels/cpu/tile_sums-inl.h"

namespace mezzo::kernels::pixels {

#if MEZZO_TILES

namespace {

MEZZO_TILE_TARGET void add_up(const Product& p, const BFloat16* rows, std::int64_t column,
                              TileSums& sums) {
  const std::int64_t row_bytes = p.inner / kBlock * kTileBytes;
  const char* weight = p.weight + column / kTileRows * row_bytes;
  clear_sums();
  TileStoresAwake stores;
  for (std::int64_t i = 0; i < p.inner; i += kBlock, weight += kTileBytes) {
    add_products(rows + i, p.inner, weight, row_bytes);
    stores.note_block();
  }
  store_sums(sums);
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
  if (strip.rows == rows_of_strip(Unit::kTiles)) return compute(p, strip, strip.x, part);
  // The last rows, of which there are too few, with others behind them.
  const Tensor copy = zeros({rows_of_strip(Unit::kTiles), p.inner}, DType::kBf16);
  std::copy_n(strip.x, strip.rows * p.inner, copy.mutable_data<BFloat16>());
  compute(p, strip, copy.data<BFloat16>(), part);
}

#else

void compute_on_tiles(const Product&, const Strip&, const NormPart*) {}

#endif

}  // namespace mezzo::kernels::pixels
