#include "mezzo/kernels/cpu/gemm/matmul_tiles_pack.h"

#include <algorithm>

#include "mezzo/kernels/cpu/gemm/tiles-inl.h"

namespace mezzo::kernels::matmul_tiles {

#if MEZZO_TILES

namespace {

// The part of an operand that a tile holds, and its size.
struct Part {
  const BFloat16* data;
  std::int64_t lines;
  std::int64_t numbers;  // elements of each line, at most 32
};

Part part_of(const Operand& operand, std::int64_t tile, std::int64_t block, std::int64_t lines) {
  const std::int64_t line = tile * kTileRows;
  const std::int64_t number = block * kInner;
  const std::int64_t offset =
      operand.inner_dense ? line * operand.stride + number : number * operand.stride + line;
  return {operand.data + offset, std::min(operand.size - line, lines),
          std::min(operand.inner - number, kInner)};
}

MEZZO_DOT_TARGET void copy_lines(const Part& part, std::int64_t stride, char* out) {
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

// Fills a tile whose row p holds the elements 2 p and 2 p + 1 of every line.
MEZZO_DOT_TARGET void weave_lines(const Part& part, std::int64_t stride, char* out) {
  const auto mask = static_cast<__mmask16>(0xffffU >> (kTileRows - part.lines));
  for (std::int64_t p = 0; p < kTileRows; ++p, out += kTileRowBytes) {
    const BFloat16* from = part.data + 2 * p * stride;
    const std::int64_t left = part.numbers - 2 * p;
    const __m512i lower = left > 0 ? load_lines(mask, from) : _mm512_setzero_si512();
    const __m512i upper = left > 1 ? load_lines(mask, from + stride) : _mm512_setzero_si512();
    _mm512_store_si512(out, _mm512_or_si512(lower, _mm512_slli_epi32(upper, 16)));
  }
}

// Splits pairs of lines, seen as 32-bit words: the lower halves go to `even`, the upper ones to
// `odd`.
MEZZO_DOT_TARGET inline void store_turns(__m512i first, __m512i second, char* even, char* odd) {
  constexpr __mmask32 kUpper = 0xaaaaaaaaU;
  _mm512_store_si512(even, _mm512_mask_blend_epi16(kUpper, first, _mm512_slli_epi32(second, 16)));
  _mm512_store_si512(odd, _mm512_mask_blend_epi16(kUpper, _mm512_srli_epi32(first, 16), second));
}

// weave_lines() for up to 32 lines; the even lines go to one tile, the odd ones to the other.
MEZZO_DOT_TARGET void weave_turns(const Part& part, std::int64_t stride, char* even, char* odd) {
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

MEZZO_DOT_TARGET void weave_whole_turns(const BFloat16* from, std::int64_t stride, char* even,
                                        char* odd) {
  for (std::int64_t p = 0; p < kTileRows; ++p, from += 2 * stride) {
    store_turns(_mm512_loadu_si512(from), _mm512_loadu_si512(from + stride),
                even + p * kTileRowBytes, odd + p * kTileRowBytes);
  }
}

void pack_tile(const Operand& operand, Form form, std::int64_t tile, std::int64_t block,
               char* out) {
  const Part part = part_of(operand, tile, block, kTileRows);
  const bool whole = part.lines == kTileRows && part.numbers == kInner;
  if (!operand.inner_dense) {
    weave_lines(part, operand.stride, out);
    if (form == Form::kFirst) transpose_tile(out, kTileRowBytes, out);
  } else if (form != Form::kFirst && whole) {
    transpose_tile(reinterpret_cast<const char*>(part.data), 2 * operand.stride, out);
  } else {
    copy_lines(part, operand.stride, out);
    if (form != Form::kFirst) transpose_tile(out, kTileRowBytes, out);
  }
}

void pack_turns(const Operand& operand, std::int64_t tile, std::int64_t block, char* even,
                char* odd) {
  const Part part = part_of(operand, tile, block, 2 * kTileRows);
  if (part.lines == 2 * kTileRows && part.numbers == kInner) {
    weave_whole_turns(part.data, operand.stride, even, odd);
  } else {
    weave_turns(part, operand.stride, even, odd);
  }
}

}  // namespace

void pack(const Operand& operand, Form form, const Range& range, char* out) {
  const std::int64_t pitch = (range.end - range.begin) * kTileBytes;
  const auto pack_pair = [&](std::int64_t tile, std::int64_t block) {
    char* to = out + tile * pitch + (block - range.begin) * kTileBytes;
    const bool two = tile + 1 < range.tiles;
    if (two && form == Form::kInterleaved && !operand.inner_dense) {
      pack_turns(operand, range.first + tile, block, to, to + pitch);
      return;
    }
    pack_tile(operand, form, range.first + tile, block, to);
    if (two) pack_tile(operand, form, range.first + tile + 1, block, to + pitch);
  };
  // Pack in memory order, which the hardware prefetcher can follow: line after line, or element
  // after element of all lines.
  if (operand.inner_dense) {
    for (std::int64_t tile = 0; tile < range.tiles; tile += 2) {
      for (std::int64_t block = range.begin; block < range.end; ++block) pack_pair(tile, block);
    }
  } else {
    for (std::int64_t block = range.begin; block < range.end; ++block) {
      for (std::int64_t tile = 0; tile < range.tiles; tile += 2) pack_pair(tile, block);
    }
  }
}

#else

void pack(const Operand&, Form, const Range&, char*) {}

#endif

}  // namespace mezzo::kernels::matmul_tiles
