#include "mezzo/kernels/cpu/pixel_rows.h"

#include <algorithm>
#include <atomic>
#include <cstring>

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

// To nearest, ties to even, and subnormals to zero, as core/half.h says. A row of the sums is a
// line of the result.
MEZZO_TILE_TARGET void write(const Sums& sums, std::int64_t rows, BFloat16* to,
                             std::int64_t pitch) {
  for (std::int64_t r = 0; r < rows; ++r, to += pitch) {
    const std::int64_t half = r / kTileRows * 2;
    const std::int64_t at = r % kTileRows * kTileRows;
    const auto bits = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(
        _mm512_load_ps(sums.tiles[half + 1] + at), _mm512_load_ps(sums.tiles[half] + at)));
    _mm512_storeu_si512(to, bits);
  }
}

MEZZO_TILE_TARGET void compute_strip(const Product& p, const Rows& rows, std::int64_t begin,
                                     std::int64_t end) {
  Sums sums;
  for (std::int64_t column = begin; column < end; column += kBlock) {
    add_up(p, rows, column, sums);
    write(sums, rows.count, rows.y + column, p.outer);
  }
}

// The last rows, of which there are too few, with others behind them.
void compute_rest(const Product& p, std::int64_t begin, std::int64_t end, std::int64_t first,
                  std::int64_t last) {
  const Tensor copy = zeros({kStrip, p.inner}, DType::kBf16);
  auto* x = copy.mutable_data<BFloat16>();
  std::copy_n(p.x + begin * p.inner, (end - begin) * p.inner, x);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  compute_strip(p, {x, p.y + begin * p.outer, end - begin}, first, last);
}

void compute(const Product& p, std::int64_t begin, std::int64_t end, std::int64_t first,
             std::int64_t last) {
  for (; begin + kStrip <= end; begin += kStrip) {
    compute_strip(p, {p.x + begin * p.inner, p.y + begin * p.outer, kStrip}, first, last);
  }
  if (begin < end) compute_rest(p, begin, end, first, last);
}

}  // namespace

MEZZO_TILE_TARGET void multiply(const Product& p, std::int64_t begin, std::int64_t end) {
  // So much of the weight is read for every strip of rows and stays in the second-level cache.
  constexpr std::int64_t kChunkBytes = 512 << 10;
  const std::int64_t chunk = std::max(kChunkBytes / (2 * p.inner) / kBlock * kBlock, kBlock);
  const TileRegisters registers;
  // The tile loads do not tell the compiler that they read memory.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  for (std::int64_t column = 0; column < p.outer; column += chunk) {
    compute(p, begin, end, column, std::min(column + chunk, p.outer));
  }
}

#else

void multiply(const Product&, std::int64_t, std::int64_t) {}

#endif

}  // namespace mezzo::kernels::pixels
