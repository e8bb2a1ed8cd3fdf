#include "mezzo/kernels/cpu/gemm/matmul_tiles_block.h"

#include <algorithm>
#include <atomic>

#include "mezzo/kernels/cpu/gemm/tiles-inl.h"

namespace mezzo::kernels::matmul_tiles {

#if MEZZO_TILES

namespace {

// Tile registers: 0 to 3 hold the sums, 4 and 5 the first operand, 6 and 7 the second.
template <int kA, int kB>
MEZZO_TILE_TARGET void multiply_run(const Run& run) {
  const Strip& a = run.first;
  const Strip& b = run.second;
  TileStoresAwake stores;
  for (std::int64_t block = 0; block < run.blocks; ++block) {
    // All loads come first: the unit then has the time of four tile products to fetch data from the
    // second-level cache.
    _tile_loadd(4, a.tiles[0] + block * a.step, a.pitch);
    _tile_loadd(6, b.tiles[0] + block * b.step, b.pitch);
    if (kB == 2) _tile_loadd(7, b.tiles[1] + block * b.step, b.pitch);
    if (kA == 2) _tile_loadd(5, a.tiles[1] + block * a.step, a.pitch);
    _tile_dpbf16ps(0, 4, 6);
    if (kB == 2) _tile_dpbf16ps(1, 4, 7);
    if (kA == 2) _tile_dpbf16ps(2, 5, 6);
    if (kA == 2 && kB == 2) _tile_dpbf16ps(3, 5, 7);
    stores.note_block();
  }
}

template <int kA, int kB>
MEZZO_TILE_TARGET void begin(const Sums& sums) {
  if (sums.begun) {
    _tile_loadd(0, sums.tiles[0][0], sums.pitch);
    if (kB == 2) _tile_loadd(1, sums.tiles[0][1], sums.pitch);
    if (kA == 2) _tile_loadd(2, sums.tiles[1][0], sums.pitch);
    if (kA == 2 && kB == 2) _tile_loadd(3, sums.tiles[1][1], sums.pitch);
  } else {
    _tile_zero(0);
    if (kB == 2) _tile_zero(1);
    if (kA == 2) _tile_zero(2);
    if (kA == 2 && kB == 2) _tile_zero(3);
  }
}

template <int kA, int kB>
MEZZO_TILE_TARGET void multiply_runs(std::span<const Run> runs, const Sums& sums) {
  begin<kA, kB>(sums);
  for (const Run& run : runs) multiply_run<kA, kB>(run);
  _tile_stored(0, sums.tiles[0][0], sums.pitch);
  if (kB == 2) _tile_stored(1, sums.tiles[0][1], sums.pitch);
  if (kA == 2) _tile_stored(2, sums.tiles[1][0], sums.pitch);
  if (kA == 2 && kB == 2) _tile_stored(3, sums.tiles[1][1], sums.pitch);
}

MEZZO_DOT_TARGET __m512 load_bias(const Result& result, std::int64_t column, __mmask16 mask) {
  if (result.bias == nullptr) return _mm512_setzero_ps();
  if (result.wide_bias) {
    return _mm512_maskz_loadu_ps(mask, static_cast<const float*>(result.bias) + column);
  }
  const __m256i bits =
      _mm256_maskz_loadu_epi16(mask, static_cast<const BFloat16*>(result.bias) + column);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}

// One row of sums: at most 32 columns.
struct Row {
  __m512 left, right;
};

// ReLU as in the operation itself: a NaN is not <= 0 and stays, and -0 becomes 0.
MEZZO_DOT_TARGET inline __m512 relu(__m512 v) {
  const __mmask16 stays = _mm512_cmp_ps_mask(v, _mm512_setzero_ps(), _CMP_NLE_UQ);
  return _mm512_maskz_mov_ps(stays, v);
}

// The permutation 0, 16, 1, 17, ..., which alternates even and odd columns.
MEZZO_DOT_TARGET inline __m512i interleaving() {
  const __m512i even = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  return _mm512_or_si512(even,
                         _mm512_slli_epi32(_mm512_add_epi32(even, _mm512_set1_epi32(16)), 16));
}

template <bool kInterleaved>
MEZZO_DOT_TARGET inline void store_row(const Row& row, const Result& result, std::int64_t at,
                                       __mmask32 mask) {
  if (result.wide) {
    auto* out = static_cast<float*>(result.data) + at;
    _mm512_mask_storeu_ps(out, static_cast<__mmask16>(mask), row.left);
    if (mask >> 16 != 0) {
      _mm512_mask_storeu_ps(out + 16, static_cast<__mmask16>(mask >> 16), row.right);
    }
  } else {
    // Rounds to nearest, ties to even, and subnormals to zero, as core/half.h says.
    auto bits = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(row.right, row.left));
    if (kInterleaved) bits = _mm512_permutexvar_epi16(interleaving(), bits);
    _mm512_mask_storeu_epi16(static_cast<BFloat16*>(result.data) + at, mask, bits);
  }
}

MEZZO_DOT_TARGET void transpose(float* tile) {
  auto* bytes = reinterpret_cast<char*>(tile);
  transpose_tile(bytes, kTileRowBytes, bytes);
}

template <bool kInterleavedColumns>
MEZZO_DOT_TARGET void write(const Sums& sums, const Order& order, const Result& result) {
  const __mmask32 mask = 0xffffffffU >> (32 - result.columns);
  const Row bias{load_bias(result, 0, static_cast<__mmask16>(mask)),
                 load_bias(result, 16, static_cast<__mmask16>(mask >> 16))};
  const bool turns = order.transposed && order.interleaved && result.rows > kTileRows;
  for (std::int64_t i = 0; i < 2 && i * kTileRows < result.rows; ++i) {
    const float* left = sums.tiles[order.transposed ? 0 : i][order.transposed ? i : 0];
    const float* right = sums.tiles[order.transposed ? 1 : i][order.transposed ? i : 1];
    const std::int64_t rows =
        turns ? (result.rows + 1 - i) / 2 : std::min(result.rows - i * kTileRows, kTileRows);
    for (std::int64_t r = 0; r < rows; ++r) {
      Row row{_mm512_add_ps(_mm512_load_ps(left + kTileRows * r), bias.left),
              _mm512_add_ps(_mm512_load_ps(right + kTileRows * r), bias.right)};
      if (result.relu) row = {relu(row.left), relu(row.right)};
      const std::int64_t at = turns ? 2 * r + i : i * kTileRows + r;
      store_row<kInterleavedColumns>(row, result, at * result.stride, mask);
    }
  }
}

}  // namespace

void multiply(Bf16Unit unit, std::span<const Run> runs, const Sums& sums) {
  if (unit == Bf16Unit::kDots) return multiply_by_dots(runs, sums);
  // The compiler does not know that tile loads read memory.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  const bool two_a = runs[0].first.tiles[1] != nullptr;
  const bool two_b = runs[0].second.tiles[1] != nullptr;
  if (two_a && two_b) return multiply_runs<2, 2>(runs, sums);
  if (two_a) return multiply_runs<2, 1>(runs, sums);
  if (two_b) return multiply_runs<1, 2>(runs, sums);
  multiply_runs<1, 1>(runs, sums);
}

void finish(const Sums& sums, const Order& order, const Result& result) {
  for (std::int64_t i = 0; order.transposed && i * kTileRows < result.columns; ++i) {
    for (std::int64_t j = 0; j * kTileRows < result.rows; ++j) transpose(sums.tiles[i][j]);
  }
  const bool columns = order.interleaved && !order.transposed && result.columns > kTileRows;
  columns ? write<true>(sums, order, result) : write<false>(sums, order, result);
}

#elif !MEZZO_NEON_DOTS

void multiply(Bf16Unit, std::span<const Run>, const Sums&) {}
void finish(const Sums&, const Order&, const Result&) {}

#endif

}  // namespace mezzo::kernels::matmul_tiles
