#include "mezzo/kernels/cpu/pixel_rows.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "mezzo/core/tensor.h"
#include "mezzo/kernels/cpu/tiles-inl.h"
#include "mezzo/kernels/cpu/tiles.h"

namespace mezzo::kernels::pixels {

#if MEZZO_TILES

namespace {

// The sums of two by two tiles.
struct alignas(64) Sums {
  float tiles[4][kTileRows * kTileRows];
};

// Rows of x: where they are, or a copy of them.
struct Rows {
  const BFloat16* x = nullptr;
  BFloat16* y = nullptr;
  std::int64_t count = 0;  // at most kStrip; the rows of x up to that are there, too
};

MEZZO_TILE_TARGET void add_up(const Product& p, const Rows& rows, std::int64_t column, Sums& sums) {
  const std::int64_t blocks = p.inner / kBlock;
  const char* left = p.weight + column / kTileRows * blocks * kTileBytes;
  const char* right = left + blocks * kTileBytes;
  const std::int64_t pitch = p.inner * 2;
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (std::int64_t block = 0; block < blocks; ++block) {
    const BFloat16* x = rows.x + block * kBlock;
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

// Adds up 32 columns of the result, by vectors of 16.
class ColumnSums {
 public:
  MEZZO_TILE_TARGET ColumnSums(const NormPart& part, std::int64_t column)
      : part_(part), column_(column) {
    for (std::int64_t i = 0; i < 2; ++i) {
      shift_[i] = _mm512_loadu_ps(part[NormPart::kShift] + column + i * kTileRows);
      sum_[i] = _mm512_loadu_ps(part[NormPart::kChunkSum] + column + i * kTileRows);
      squares_[i] = _mm512_loadu_ps(part[NormPart::kChunkSquares] + column + i * kTileRows);
    }
  }

  // The same instructions as batch_norm's.
  MEZZO_TILE_TARGET void add(__m512i row) {
    add(0, _mm512_castsi512_si256(row));
    add(1, _mm512_extracti64x4_epi64(row, 1));
  }

  MEZZO_TILE_TARGET void keep() const {
    for (std::int64_t i = 0; i < 2; ++i) {
      _mm512_storeu_ps(part_[NormPart::kChunkSum] + column_ + i * kTileRows, sum_[i]);
      _mm512_storeu_ps(part_[NormPart::kChunkSquares] + column_ + i * kTileRows, squares_[i]);
    }
  }

 private:
  MEZZO_TILE_TARGET void add(int i, __m256i half) {
    const __m512 x = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
    const __m512 v = _mm512_sub_ps(x, shift_[i]);
    sum_[i] = _mm512_add_ps(sum_[i], v);
    squares_[i] = _mm512_fmadd_ps(v, v, squares_[i]);
  }

  const NormPart& part_;
  std::int64_t column_;
  __m512 shift_[2], sum_[2], squares_[2];
};

// Row r of the sums: to nearest, ties to even, and subnormals to zero, as core/half.h says.
MEZZO_TILE_TARGET inline __m512i rounded_row(const Sums& sums, std::int64_t r) {
  const std::int64_t half = r / kTileRows * 2;
  const std::int64_t at = r % kTileRows * kTileRows;
  return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(_mm512_load_ps(sums.tiles[half + 1] + at),
                                                       _mm512_load_ps(sums.tiles[half] + at)));
}

// A row of the sums is a line of the result. `part`: null, or what the rows are added to.
MEZZO_TILE_TARGET void compute_strip(const Product& p, const Rows& rows, std::int64_t begin,
                                     std::int64_t end, const NormPart* part) {
  Sums sums;
  for (std::int64_t column = begin; column < end; column += kBlock) {
    add_up(p, rows, column, sums);
    BFloat16* y = rows.y + column;
    if (part == nullptr) {
      for (std::int64_t r = 0; r < rows.count; ++r, y += p.outer) {
        _mm512_storeu_si512(y, rounded_row(sums, r));
      }
      continue;
    }
    ColumnSums columns(*part, column);
    for (std::int64_t r = 0; r < rows.count; ++r, y += p.outer) {
      const __m512i row = rounded_row(sums, r);
      _mm512_storeu_si512(y, row);
      columns.add(row);
    }
    columns.keep();
  }
}

// Ends a chunk.
void add_chunk(const NormPart& part, std::int64_t columns) {
  const auto add = [&](float* chunk, float* total) {
    for (std::int64_t c = 0; c < columns; ++c) total[c] += std::exchange(chunk[c], 0.0F);
  };
  add(part[NormPart::kChunkSum], part[NormPart::kSum]);
  add(part[NormPart::kChunkSquares], part[NormPart::kSquares]);
}

// The last rows, of which there are too few, with others behind them.
void compute_rest(const Product& p, std::int64_t begin, std::int64_t end, std::int64_t first,
                  std::int64_t last, const NormPart* part) {
  const Tensor copy = zeros({kStrip, p.inner}, DType::kBf16);
  auto* x = copy.mutable_data<BFloat16>();
  std::copy_n(p.x + begin * p.inner, (end - begin) * p.inner, x);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  compute_strip(p, {x, p.y + begin * p.outer, end - begin}, first, last, part);
}

void compute(const Product& p, std::int64_t begin, std::int64_t end, std::int64_t first,
             std::int64_t last) {
  for (; begin + kStrip <= end; begin += kStrip) {
    compute_strip(p, {p.x + begin * p.inner, p.y + begin * p.outer, kStrip}, first, last, nullptr);
  }
  if (begin < end) compute_rest(p, begin, end, first, last, nullptr);
}

// Rows from a whole chunk on, which strips divide.
static_assert(NormSums::kChunkRows % kStrip == 0);
void compute_and_sum(const Product& p, std::int64_t begin, std::int64_t end, const NormPart& part) {
  std::int64_t in_chunk = 0;
  for (; begin + kStrip <= end; begin += kStrip) {
    const Rows rows{p.x + begin * p.inner, p.y + begin * p.outer, kStrip};
    compute_strip(p, rows, 0, p.outer, &part);
    in_chunk = (in_chunk + kStrip) % NormSums::kChunkRows;
    if (in_chunk == 0) add_chunk(part, p.outer);
  }
  if (begin < end) compute_rest(p, begin, end, 0, p.outer, &part);
  if (begin < end || in_chunk > 0) add_chunk(part, p.outer);
}

}  // namespace

void multiply(const Product& p, std::int64_t begin, std::int64_t end) {
  const std::int64_t chunk = std::max(kChunkBytes / (2 * p.inner) / kBlock * kBlock, kBlock);
  const TileRegisters registers;
  // The tile loads do not tell the compiler that they read memory.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  for (std::int64_t column = 0; column < p.outer; column += chunk) {
    compute(p, begin, end, column, std::min(column + chunk, p.outer));
  }
}

void multiply_and_sum(const Product& p, const NormSums& sums, int part) {
  const std::int64_t begin = sums.rows().first_row(part);
  const std::int64_t end = sums.rows().first_row(part + 1);
  const std::int64_t middle = begin + sums.rows_at_first(part);
  multiply(p, begin, middle);
  const NormPart totals = sums.begin(part, p.y);
  const TileRegisters registers;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  compute_and_sum(p, middle, end, totals);
}

#else

void multiply(const Product&, std::int64_t, std::int64_t) {}
void multiply_and_sum(const Product&, const NormSums&, int) {}

#endif

}  // namespace mezzo::kernels::pixels
