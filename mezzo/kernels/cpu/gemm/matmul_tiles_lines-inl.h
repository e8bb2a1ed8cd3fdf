// Copying a part of an operand to a tile, on x86-64.
#pragma once

#include "mezzo/kernels/cpu/gemm/matmul_tiles_pack.h"
#include "mezzo/kernels/cpu/gemm/tiles-inl.h"

#if MEZZO_TILES

namespace mezzo::kernels::matmul_tiles {

MEZZO_DOT_TARGET inline void copy_lines(const Part& part, std::int64_t stride, char* out) {
  const __mmask32 mask = 0xffffffffU >> (kInner - part.numbers);
  for (std::int64_t i = 0; i < kTileRows; ++i) {
    const __m512i line = i < part.lines ? _mm512_maskz_loadu_epi16(mask, part.data + i * stride)
                                        : _mm512_setzero_si512();
    _mm512_store_si512(out + i * kTileRowBytes, line);
  }
}

MEZZO_DOT_TARGET inline __m512i load_lines(__mmask16 mask, const BFloat16* from) {
  return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, from));
}

// Row p of the tile: the numbers 2 p and 2 p + 1 of every line.
MEZZO_DOT_TARGET inline void weave_lines(const Part& part, std::int64_t stride, char* out) {
  const auto mask = static_cast<__mmask16>(0xffffU >> (kTileRows - part.lines));
  for (std::int64_t p = 0; p < kTileRows; ++p, out += kTileRowBytes) {
    const BFloat16* from = part.data + 2 * p * stride;
    const std::int64_t left = part.numbers - 2 * p;
    const __m512i lower = left > 0 ? load_lines(mask, from) : _mm512_setzero_si512();
    const __m512i upper = left > 1 ? load_lines(mask, from + stride) : _mm512_setzero_si512();
    _mm512_store_si512(out, _mm512_or_si512(lower, _mm512_slli_epi32(upper, 16)));
  }
}

// Pairs of lines are numbers of 32 bits: their lower halves go to `even`, the upper ones to `odd`.
MEZZO_DOT_TARGET inline void store_turns(__m512i first, __m512i second, char* even, char* odd) {
  constexpr __mmask32 kUpper = 0xaaaaaaaaU;
  _mm512_store_si512(even, _mm512_mask_blend_epi16(kUpper, first, _mm512_slli_epi32(second, 16)));
  _mm512_store_si512(odd, _mm512_mask_blend_epi16(kUpper, _mm512_srli_epi32(first, 16), second));
}

// The same as weave_lines() for up to 32 lines, the even and the odd ones of them.
MEZZO_DOT_TARGET inline void weave_turns(const Part& part, std::int64_t stride, char* even,
                                         char* odd) {
  const __mmask32 mask = 0xffffffffU >> (32 - part.lines);
  for (std::int64_t p = 0; p < kTileRows; ++p) {
    const BFloat16* from = part.data + 2 * p * stride;
    const std::int64_t left = part.numbers - 2 * p;
    const __m512i first = left > 0 ? _mm512_maskz_loadu_epi16(mask, from) : _mm512_setzero_si512();
    const __m512i second =
        left > 1 ? _mm512_maskz_loadu_epi16(mask, from + stride) : _mm512_setzero_si512();
    store_turns(first, second, even + p * kTileRowBytes, odd + p * kTileRowBytes);
  }
}

MEZZO_DOT_TARGET inline void weave_whole_turns(const BFloat16* from, std::int64_t stride,
                                               char* even, char* odd) {
  for (std::int64_t p = 0; p < kTileRows; ++p, from += 2 * stride) {
    store_turns(_mm512_loadu_si512(from), _mm512_loadu_si512(from + stride),
                even + p * kTileRowBytes, odd + p * kTileRowBytes);
  }
}

}  // namespace mezzo::kernels::matmul_tiles

#endif
