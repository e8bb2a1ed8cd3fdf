#include "mezzo/kernels/cpu/gemm/dots-inl.h"
#include "mezzo/kernels/cpu/gemm/matmul_tiles_block.h"

namespace mezzo::kernels::matmul_tiles {

#if MEZZO_TILES

namespace {

constexpr int kRows = 8;  // rows of a tile at a time: 16 sums with two vectors

// Adds up rows [row, row + kRows) of a tile of the first operand times kB tiles of the second.
template <int kB>
MEZZO_DOT_TARGET void multiply_rows(std::span<const Run> runs, std::size_t tile, std::int64_t row,
                                    const Sums& out) {
  const auto place = [&](int r, int v) {
    return reinterpret_cast<char*>(out.tiles[tile][v]) + (row + r) * out.pitch;
  };
  DotSums<kRows, kB> sums;
  sums.clear();
  if (out.begun) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < kB; ++v) sums.at[r][v] = _mm512_loadu_ps(place(r, v));
    }
  }
  for (const Run& run : runs) {
    const char* rows = run.first.tiles[tile] + row * run.first.pitch;
    const char* vectors[kB];
    for (int v = 0; v < kB; ++v) vectors[v] = run.second.tiles[v];
    for (std::int64_t block = 0; block < run.blocks; ++block) {
      sums.add(rows, run.first.pitch, vectors);
      rows += run.first.step;
#pragma GCC unroll 2
      for (int v = 0; v < kB; ++v) vectors[v] += run.second.step;
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kB; ++v) _mm512_storeu_ps(place(r, v), sums.at[r][v]);
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

#elif !MEZZO_NEON_DOTS

void multiply_by_dots(std::span<const Run>, const Sums&) {}

#endif

}  // namespace mezzo::kernels::matmul_tiles
