// Shared by the sources with tile instructions. It has the attributes to compile them, and the
// transpose of 16 x 16 elements of 32 bits. The latter turns tiles of a first operand into tiles of
// a second one.
#pragma once

#include <cstdint>

#if defined(__x86_64__) && defined(__linux__)
#if !defined(__clang__)
// gcc 12 warns about its own intrinsics, which read undefined values on purpose.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

#define MEZZO_TILES 1
#define MEZZO_DOT_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))
#define MEZZO_TILE_TARGET \
  __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16,amx-tile,amx-bf16")))
#else
#define MEZZO_TILES 0
#endif

// Where dots_neon-inl.h and the sources that include it stand in for the dot products of AVX-512.
#if defined(__aarch64__)
#define MEZZO_NEON_DOTS 1
#else
#define MEZZO_NEON_DOTS 0
#endif

namespace mezzo::kernels {

inline constexpr std::int64_t kTileRows = 16;
inline constexpr std::int64_t kTileRowBytes = 64;
inline constexpr std::int64_t kTileBytes = kTileRows * kTileRowBytes;

#if MEZZO_TILES

// Stores an unread tile now and then during a long sum of products. Otherwise, a tile store takes a
// quarter of a microsecond longer if the last one was more than half a microsecond before. It is as
// if part of the unit had been powered down (docs/benchmarks/convolutions.md).
class TileStoresAwake {
 public:
  // Call after each block of up to four tile products; tile 4 has to be in use.
  MEZZO_TILE_TARGET void note_block() {
    if (++blocks_ % kBlocks == 0) _tile_stored(4, unread_, kTileRowBytes);
  }

 private:
  static constexpr std::uint32_t kBlocks = 9;

  std::uint32_t blocks_ = 0;
  alignas(64) char unread_[kTileBytes];
};

MEZZO_DOT_TARGET inline __m512i quarter_of_rows(const char* from, std::int64_t pitch) {
  const auto load = [&](std::int64_t row) MEZZO_DOT_TARGET {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + row * pitch));
  };
  __m512i v = _mm512_castsi128_si512(load(0));
  v = _mm512_mask_broadcast_i32x4(v, 0x00f0, load(4));
  v = _mm512_mask_broadcast_i32x4(v, 0x0f00, load(8));
  return _mm512_mask_broadcast_i32x4(v, 0xf000, load(12));
}

// Writes four columns, whose elements from row j, j + 4, j + 8 and j + 12 are in the quarters of
// in[j].
MEZZO_DOT_TARGET inline void store_columns(const __m512i* in, char* to) {
  const __m512i a = _mm512_unpacklo_epi32(in[0], in[1]);
  const __m512i b = _mm512_unpackhi_epi32(in[0], in[1]);
  const __m512i c = _mm512_unpacklo_epi32(in[2], in[3]);
  const __m512i d = _mm512_unpackhi_epi32(in[2], in[3]);
  _mm512_storeu_si512(to, _mm512_unpacklo_epi64(a, c));
  _mm512_storeu_si512(to + kTileRowBytes, _mm512_unpackhi_epi64(a, c));
  _mm512_storeu_si512(to + 2 * kTileRowBytes, _mm512_unpacklo_epi64(b, d));
  _mm512_storeu_si512(to + 3 * kTileRowBytes, _mm512_unpackhi_epi64(b, d));
}

// Writes the transpose of 16 rows, `pitch` bytes apart, as one tile; `to` may be `from`. The loads
// assemble rows by quarters, which halves the work of the shuffle port.
MEZZO_DOT_TARGET inline void transpose_tile(const char* from, std::int64_t pitch, char* to) {
  __m512i quarters[16];
  for (std::int64_t i = 0; i < 16; ++i) {
    quarters[i] = quarter_of_rows(from + i % 4 * pitch + i / 4 * 16, pitch);
  }
  for (std::int64_t q = 0; q < 4; ++q) store_columns(quarters + 4 * q, to + q * 4 * kTileRowBytes);
}

#endif

}  // namespace mezzo::kernels
