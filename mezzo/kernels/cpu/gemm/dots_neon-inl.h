// What tiles-inl.h and dots-inl.h are on x86-64, for 64-bit Arm: sums in registers of bf16 dot
// products (BFDOT), and tiles of 16 x 16 elements of 32 bits.
//
// BFDOT adds two products to a sum in f32, but not by the rules of other arithmetic: both products
// and both additions are rounded to odd, whatever the rounding mode, and subnormal numbers are read
// and given back as zero. Each addition may so be wrong by a unit in the last place, not by half of
// one. (CPUs with FEAT_EBF16 can do better if the system asks for it; Linux does not.)
#pragma once

#include "mezzo/kernels/cpu/gemm/tiles-inl.h"

#if MEZZO_NEON_DOTS

#include <cstring>

#include <arm_neon.h>

// Not every 64-bit Arm CPU has the instruction: callers ask cpu_features().neon_bf16.
#define MEZZO_NEON_DOT_TARGET __attribute__((target("arch=armv8.2-a+bf16")))

namespace mezzo::kernels {

// Vectors of f32 in a row of a tile.
inline constexpr int kTileVectors = 4;

// Of kRows rows by the 16 columns of a tile: at most 6 rows, or the sums, a row of factors and
// their partners would not stay in the 32 registers.
template <int kRows>
struct NeonSums {
  float32x4_t at[kRows][kTileVectors];

  void clear() {
    for (int r = 0; r < kRows; ++r) {
      for (int v = 0; v < kTileVectors; ++v) at[r][v] = vdupq_n_f32(0);
    }
  }

  // Adds pairs of numbers of each row, `pitch` bytes apart, times as many pairs of each of 16
  // columns: those of one pair in each 64 bytes. `pairs` is a multiple of 4.
  MEZZO_NEON_DOT_TARGET void add(const char* rows, std::int64_t pitch, const char* columns,
                                 std::int64_t pairs = 16) {
    for (std::int64_t pair = 0; pair < pairs; pair += 4, rows += 16) {
      bfloat16x8_t factors[kRows];
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) factors[r] = load(rows + r * pitch);
      add_pair<0>(factors, columns);
      add_pair<1>(factors, columns + kTileRowBytes);
      add_pair<2>(factors, columns + 2 * kTileRowBytes);
      add_pair<3>(factors, columns + 3 * kTileRowBytes);
      columns += 4 * kTileRowBytes;
    }
  }

 private:
  MEZZO_NEON_DOT_TARGET static bfloat16x8_t load(const char* from) {
    return vreinterpretq_bf16_u8(vld1q_u8(reinterpret_cast<const std::uint8_t*>(from)));
  }

  template <int kPair>
  MEZZO_NEON_DOT_TARGET void add_pair(const bfloat16x8_t (&factors)[kRows], const char* columns) {
#pragma GCC unroll 4
    for (int v = 0; v < kTileVectors; ++v) {
      const bfloat16x8_t partners = load(columns + 16 * v);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        at[r][v] = vbfdotq_laneq_f32(at[r][v], partners, factors[r], kPair);
      }
    }
  }
};

// By the rules of core/half.h. The CPU's own instruction (BFCVTN) keeps subnormals.
inline uint16x4_t rounded_to_bf16(float32x4_t v) {
  const uint32x4_t bits = vreinterpretq_u32_f32(v);
  const uint32x4_t magnitude = vandq_u32(bits, vdupq_n_u32(0x7fffffffU));
  const uint32x4_t upper = vshrq_n_u32(bits, 16);
  const uint32x4_t odd = vandq_u32(upper, vdupq_n_u32(1));
  uint32x4_t rounded = vshrq_n_u32(vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7fffU)), odd), 16);
  rounded = vbslq_u32(vcltq_u32(magnitude, vdupq_n_u32(0x00800000U)),
                      vandq_u32(upper, vdupq_n_u32(0x8000U)), rounded);
  rounded = vbslq_u32(vcgtq_u32(magnitude, vdupq_n_u32(0x7f800000U)),
                      vorrq_u32(upper, vdupq_n_u32(0x40U)), rounded);
  return vmovn_u32(rounded);
}

inline float32x4_t widened_bf16(uint16x4_t bits) {
  return vreinterpretq_f32_u32(vshll_n_u16(bits, 16));
}

// Four columns of four rows, as rows.
inline void transpose_square(const uint32x4_t (&rows)[4], std::uint32_t* to, std::int64_t step) {
  const auto half = [](uint32x4_t v) { return vreinterpretq_u64_u32(v); };
  const auto put = [&](std::int64_t row, uint64x2_t v) {
    vst1q_u32(to + row * step, vreinterpretq_u32_u64(v));
  };
  const uint64x2_t a = half(vtrn1q_u32(rows[0], rows[1]));
  const uint64x2_t b = half(vtrn2q_u32(rows[0], rows[1]));
  const uint64x2_t c = half(vtrn1q_u32(rows[2], rows[3]));
  const uint64x2_t d = half(vtrn2q_u32(rows[2], rows[3]));
  put(0, vtrn1q_u64(a, c));
  put(1, vtrn1q_u64(b, d));
  put(2, vtrn2q_u64(a, c));
  put(3, vtrn2q_u64(b, d));
}

// Writes the transposed block of 16 rows `pitch` bytes apart as one tile; `to` may be `from`.
inline void transpose_tile(const char* from, std::int64_t pitch, char* to) {
  std::uint32_t in[kTileRows][kTileRows];
  for (std::int64_t r = 0; r < kTileRows; ++r) std::memcpy(in[r], from + r * pitch, sizeof(in[r]));
  auto* const out = reinterpret_cast<std::uint32_t*>(to);
  for (std::int64_t r = 0; r < kTileRows; r += 4) {
    for (std::int64_t c = 0; c < kTileRows; c += 4) {
      const uint32x4_t rows[4] = {vld1q_u32(in[r] + c), vld1q_u32(in[r + 1] + c),
                                  vld1q_u32(in[r + 2] + c), vld1q_u32(in[r + 3] + c)};
      transpose_square(rows, out + c * kTileRows + r, kTileRows);
    }
  }
}

}  // namespace mezzo::kernels

#endif
