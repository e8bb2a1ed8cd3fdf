// Sums of bf16 dot products in registers: rows of one operand times vectors of the other.
#pragma once

#include <cstdint>
#include <cstring>

#include "mezzo/kernels/cpu/gemm/tiles-inl.h"

#if MEZZO_TILES

namespace mezzo::kernels {

// Two adjacent values, broadcast to every lane.
MEZZO_DOT_TARGET inline __m512bh pair_at(const char* from) {
  std::int32_t pair = 0;
  std::memcpy(&pair, from, sizeof(pair));
  return reinterpret_cast<__m512bh>(_mm512_set1_epi32(pair));
}

// The sums of kRows rows by kVectors times 16 columns. All loops over them are unrolled; otherwise
// they would not stay in registers.
template <int kRows, int kVectors>
struct DotSums {
  __m512 at[kRows][kVectors];

  MEZZO_DOT_TARGET void clear() {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) at[r][v] = _mm512_setzero_ps();
    }
  }

  // Adds the products of pairs from each row and of pairs from each vector's 16 columns. Rows are
  // `pitch` bytes apart; a vector's consecutive pairs are 64 bytes apart.
  MEZZO_DOT_TARGET void add(const char* rows, std::int64_t pitch,
                            const char* const (&vectors)[kVectors], std::int64_t pairs = 16) {
    for (std::int64_t pair = 0; pair < pairs; ++pair, rows += 4) {
      __m512bh factors[kVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        factors[v] = reinterpret_cast<__m512bh>(_mm512_loadu_si512(vectors[v] + 64 * pair));
      }
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const __m512bh factor = pair_at(rows + r * pitch);
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) {
          at[r][v] = _mm512_dpbf16_ps(at[r][v], factor, factors[v]);
        }
      }
    }
  }
};

}  // namespace mezzo::kernels

#endif
