#include <algorithm>
#include <atomic>

#include "mezzo/core/math.h"
#include "mezzo/core/tensor.h"
#include "mezzo/kernels/cpu/gemm/column_sums-inl.h"
#include "mezzo/kernels/cpu/gemm/pixel_strips.h"
#include "mezzo/kernels/cpu/gemm/tile_sums-inl.h"
#include "mezzo/kernels/cpu/simd/prefetch.h"

namespace mezzo::kernels::pixels {

#if MEZZO_TILES

namespace {

constexpr std::int64_t kStripRows = rows_of_strip(Unit::kTiles);

// Prefetches the rows after a strip and the lines of their results. A few lines are prefetched with
// every block of products; otherwise the unit would wait for all of them.
class NextRows {
 public:
  NextRows(const Product& p, const Strip& strip)
      : outer_(p.outer),
        x_(p.x + (strip.row + kStripRows) * p.inner),
        end_x_(x_ + kStripRows * p.inner),
        x_lines_(ceil_div(kStripRows * kBlock, strip.end_column - strip.column)),
        y_lines_(ceil_div(kStripRows * kBlock, p.inner)) {}

  // The current results are one line of each row from `y` on.
  void begin_column(const BFloat16* y) {
    y_ = y + kStripRows * outer_;
    end_y_ = y_ + kStripRows * outer_;
  }

  void prefetch_lines() {
    for (std::int64_t i = 0; i < x_lines_ && x_ < end_x_; ++i, x_ += kBlock) prefetch(x_, 0);
    for (std::int64_t i = 0; i < y_lines_ && y_ < end_y_; ++i, y_ += outer_) prefetch(y_, 0);
  }

 private:
  std::int64_t outer_;
  const BFloat16 *x_, *end_x_;
  const BFloat16 *y_ = nullptr, *end_y_ = nullptr;
  std::int64_t x_lines_, y_lines_;  // lines to prefetch per block
};

MEZZO_TILE_TARGET void add_up(const Product& p, const BFloat16* rows, std::int64_t column,
                              NextRows& next, TileSums& sums) {
  const std::int64_t row_bytes = p.inner / kBlock * kTileBytes;
  const char* weight = p.weight + column / kTileRows * row_bytes;
  clear_sums();
  TileStoresAwake stores;
  for (std::int64_t i = 0; i < p.inner; i += kBlock, weight += kTileBytes) {
    add_products(rows + i, p.inner, weight, row_bytes);
    stores.note_block();
    next.prefetch_lines();
  }
  store_sums(sums);
}

// Computes the strip from `rows`, the rows of x, as many as two tiles read.
MEZZO_TILE_TARGET void compute(const Product& p, const Strip& strip, const BFloat16* rows,
                               const NormPart* part) {
  // The compiler does not know that tile loads read memory.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  TileSums sums;
  NextRows next(p, strip);
  for (std::int64_t column = strip.column; column < strip.end_column; column += kBlock) {
    BFloat16* y = p.y + strip.row * p.outer + column;
    next.begin_column(y);
    add_up(p, rows, column, next, sums);
    const ColumnBias bias(p.bias, column);
    if (part == nullptr) {
      for (std::int64_t r = 0; r < strip.rows; ++r, y += p.outer) {
        _mm512_storeu_si512(y, rounded_row(sums, r, bias));
      }
      continue;
    }
    ColumnSums columns(*part, column);
    for (std::int64_t r = 0; r < strip.rows; ++r, y += p.outer) {
      const __m512i row = rounded_row(sums, r, bias);
      _mm512_storeu_si512(y, row);
      columns.add(row);
    }
    columns.keep();
  }
}

}  // namespace

void compute_on_tiles(const Product& p, const Strip& strip, const NormPart* part) {
  if (strip.rows == kStripRows) return compute(p, strip, strip.x, part);
  // Copies the last rows, too few for two tiles, and pads them with zeros.
  const Tensor copy = zeros({kStripRows, p.inner}, DType::kBf16);
  std::copy_n(strip.x, strip.rows * p.inner, copy.mutable_data<BFloat16>());
  compute(p, strip, copy.data<BFloat16>(), part);
}

#else

void compute_on_tiles(const Product&, const Strip&, const NormPart*) {}

#endif

}  // namespace mezzo::kernels::pixels
