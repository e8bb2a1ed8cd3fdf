#include "mezzo/kernels/cpu/dots-inl.h"
#include "mezzo/kernels/cpu/row_sums.h"

namespace mezzo::kernels::row_sums {

#if MEZZO_TILES

namespace {

constexpr std::int64_t kLanes = 16;
constexpr std::int64_t kVectorBytes = 64;

// All loops over sums are unrolled, or they would not stay in registers.
template <int kPixels, int kVectors>
struct Sums {
  __m512 at[kPixels][kVectors];

  MEZZO_DOT_TARGET void clear() {
#pragma GCC unroll 8
    for (int p = 0; p < kPixels; ++p) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) at[p][v] = _mm512_setzero_ps();
    }
  }

  MEZZO_DOT_TARGET void multiply(const RowSum& sum, const Block& block, const Tap& tap) {
    const std::int64_t vector = sum.steps * kVectorBytes;
    const char* pixels = tap.pixels + block.pixel * sum.pixel_bytes;
    const char* weight = tap.weight + block.vector * vector;
    for (std::int64_t i = 0; i < sum.steps; ++i, pixels += 4, weight += kVectorBytes) {
      __m512bh factors[kVectors];
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        factors[v] = reinterpret_cast<__m512bh>(_mm512_loadu_si512(weight + v * vector));
      }
#pragma GCC unroll 8
      for (int p = 0; p < kPixels; ++p) {
        const __m512bh pair = pair_at(pixels + p * sum.pixel_bytes);
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v) at[p][v] = _mm512_dpbf16_ps(at[p][v], pair, factors[v]);
      }
    }
  }

  MEZZO_DOT_TARGET void add_to(const RowSum& sum, const Block& block) const {
    const auto last = static_cast<__mmask16>((1U << sum.last) - 1);
#pragma GCC unroll 8
    for (int p = 0; p < kPixels; ++p) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        float* const to = sum.row + (block.pixel + p) * sum.apart + (block.vector + v) * kLanes;
        const __mmask16 lanes = block.vector + v + 1 == sum.vectors ? last : __mmask16{0xffff};
        const __m512 row = _mm512_loadu_ps(to);
        _mm512_storeu_ps(to, _mm512_mask_add_ps(row, lanes, row, at[p][v]));
      }
    }
  }
};

template <int kPixels, int kVectors>
MEZZO_DOT_TARGET void add_block(const RowSum& sum, const Block& block) {
  Sums<kPixels, kVectors> sums;
  sums.clear();
  for (const Tap& tap : sum.taps) sums.multiply(sum, block, tap);
  sums.add_to(sum, block);
}

}  // namespace

void add_row_by_dots(const RowSum& sum) {
  for_blocks<8>(sum, [&]<int kPixels, int kVectors>(const Block& block) {
    add_block<kPixels, kVectors>(sum, block);
  });
}

#else

void add_row_by_dots(const RowSum&) {}

#endif

}  // namespace mezzo::kernels::row_sums
