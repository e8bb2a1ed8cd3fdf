#include "mezzo/kernels/cpu/conv/grad_weight/grad_weight_tiles.h"

#include "mezzo/kernels/cpu/gemm/tiles-inl.h"

namespace mezzo::kernels::grad_weight {

#if MEZZO_TILES

namespace {

constexpr std::int64_t kBlock = 256;  // elements of a block of 16 x 16
constexpr int kRowBytes = static_cast<int>(kTileRowBytes);

// Prefetches rows of sums that are not contiguous: each one misses the caches by itself.
template <int kA, int kB>
void prefetch_sums(const TileRun& run, const TileOperands& o) {
  for (int i = 0; i < kA; ++i) {
    for (int j = 0; j < kB; ++j) {
      for (std::int64_t row = 0; row < kTileRows; ++row) {
        __builtin_prefetch(o.c[i][j] + row * run.c_row, 1);
      }
    }
  }
}

// Tile registers: 0 to 3 hold the sums, 4 and 5 hold a, 6 and 7 hold b.
template <int kA, int kB>
MEZZO_TILE_TARGET void multiply(const TileRun& run, const TileOperands& o) {
  const std::int64_t row_bytes = run.c_row * static_cast<std::int64_t>(sizeof(float));
  if (run.c_row > kTileRows) prefetch_sums<kA, kB>(run, o);
  if (run.first) {
    _tile_zero(0);
    if (kB == 2) _tile_zero(1);
    if (kA == 2) _tile_zero(2);
    if (kA == 2 && kB == 2) _tile_zero(3);
  } else {
    _tile_loadd(0, o.c[0][0], row_bytes);
    if (kB == 2) _tile_loadd(1, o.c[0][1], row_bytes);
    if (kA == 2) _tile_loadd(2, o.c[1][0], row_bytes);
    if (kA == 2 && kB == 2) _tile_loadd(3, o.c[1][1], row_bytes);
  }
  TileStoresAwake stores;
  for (std::int64_t slot = 0; slot < run.slots; ++slot) {
    for (std::int64_t block = 0; block < run.blocks; ++block) {
      const std::int64_t a = slot * run.a_slot + block * kBlock;
      const std::int64_t b = slot * run.b_slot + block * kBlock;
      _tile_loadd(6, o.b[0] + b, kRowBytes);
      _tile_loadd(4, o.a[0] + a, kRowBytes);
      _tile_dpbf16ps(0, 4, 6);
      if (kB == 2) {
        _tile_loadd(7, o.b[1] + b, kRowBytes);
        _tile_dpbf16ps(1, 4, 7);
      }
      if (kA == 2) {
        _tile_loadd(5, o.a[1] + a, kRowBytes);
        _tile_dpbf16ps(2, 5, 6);
      }
      if (kA == 2 && kB == 2) _tile_dpbf16ps(3, 5, 7);
      stores.note_block();
    }
  }
  _tile_stored(0, o.c[0][0], row_bytes);
  if (kB == 2) _tile_stored(1, o.c[0][1], row_bytes);
  if (kA == 2) _tile_stored(2, o.c[1][0], row_bytes);
  if (kA == 2 && kB == 2) _tile_stored(3, o.c[1][1], row_bytes);
}

}  // namespace

void multiply_tiles(const TileRun& run, const TileOperands& operands) {
  const bool two_a = operands.a[1] != nullptr;
  const bool two_b = operands.b[1] != nullptr;
  if (two_a && two_b) return multiply<2, 2>(run, operands);
  if (two_a) return multiply<2, 1>(run, operands);
  if (two_b) return multiply<1, 2>(run, operands);
  multiply<1, 1>(run, operands);
}

#else

void multiply_tiles(const TileRun&, const TileOperands&) {}

#endif

}  // namespace mezzo::kernels::grad_weight
