#include <cstring>

#include "mezzo/kernels/cpu/matmul_tiles_block.h"
#include "mezzo/kernels/cpu/tiles-inl.h"

namespace mezzo::kernels::matmul_tiles {

#if MEZZO_TILES

namespace {

constexpr int kRows = 8;  // of a tile at a time: with two vectors of the other operand, 16 sums
constexpr std::int64_t kPairBytes = 4;

MEZZO_DOT_TARGET inline __m512bh pair_at(const char* from) {
  std::int32_t pair = 0;
  std::memcpy(&pair, from, sizeof(pair));
  return reinterpret_cast<__m512bh>(_mm512_set1_epi32(pair));
}

// Adds up rows [row, row + kRows) of a tile of the first operand, by kB tiles of the second. The
// loops over sums are unrolled, or the sums would not stay in registers.
template <int kB>
MEZZO_DOT_TARGET void multiply_rows(std::span<const Run> runs, std::size_t tile, std::int64_t row,
                                    const Sums& out) {
  __m512 sums[kRows][kB];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kB; ++v) sums[r][v] = _mm512_setzero_ps();
  }
  for (const Run& run : runs) {
    const std::int64_t pitch = run.first.pitch;
    for (std::int64_t block = 0; block < run.blocks; ++block) {
      const char* a = run.first.tiles[tile] + block * run.first.step + row * pitch;
      const std::int64_t b = block * run.second.step;
      for (std::int64_t pair = 0; pair < kTileRows; ++pair, a += kPairBytes) {
        __m512bh factors[kB];
#pragma GCC unroll 2
        for (int v = 0; v < kB; ++v) {
          factors[v] = reinterpret_cast<__m512bh>(
              _mm512_loadu_si512(run.second.tiles[v] + b + pair * run.second.pitch));
        }
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
          const __m512bh factor = pair_at(a + r * pitch);
#pragma GCC unroll 2
          for (int v = 0; v < kB; ++v) {
            sums[r][v] = _mm512_dpbf16_ps(sums[r][v], factor, factors[v]);
          }
        }
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kB; ++v) {
      auto* const to = reinterpret_cast<char*>(out.tiles[tile][v]) + (row + r) * out.pitch;
      _mm512_storeu_ps(to, sums[r][v]);
    }
  }
}

}  // namespace

void multiply_by_dots(std::span<const Run> runs, const Sums& sums) {
  const bool is_wide = runs[0].second.tiles[1] != nullptr;
  for (std::size_t tile = 0; tile < 2 && runs[0].first.tiles[tile] != nullptr; ++tile) {
    for (std::int64_t row = 0; row < kTileRows; row += kRows) {
      is_wide ? multiply_rows<2>(runs, tile, row, sums) : multiply_rows<1>(runs, tile, row, sums);
    }
  }
}

#else

void multiply_by_dots(std::span<const Run>, const Sums&) {}

#endif

}  // namespace mezzo::kernels::matmul_tiles
