#include "mezzo/kernels/cpu/conv/planar/row_sums.h"
#include "mezzo/kernels/cpu/gemm/dots-inl.h"

namespace mezzo::kernels::row_sums {

#if MEZZO_TILES

namespace {

constexpr std::int64_t kLanes = 16;
constexpr std::int64_t kVectorBytes = 64;

template <int kPixels, int kVectors>
MEZZO_DOT_TARGET void add_to_row(const RowSum& sum, const Block& block,
                                 const DotSums<kPixels, kVectors>& sums) {
  const auto last = static_cast<__mmask16>((1U << sum.last) - 1);
#pragma GCC unroll 8
  for (int p = 0; p < kPixels; ++p) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      float* const to = sum.row + (block.pixel + p) * sum.apart + (block.vector + v) * kLanes;
      const __mmask16 lanes = block.vector + v + 1 == sum.vectors ? last : __mmask16{0xffff};
      const __m512 row = _mm512_loadu_ps(to);
      _mm512_storeu_ps(to, _mm512_mask_add_ps(row, lanes, row, sums.at[p][v]));
    }
  }
}

template <int kPixels, int kVectors>
MEZZO_DOT_TARGET void add_block(const RowSum& sum, const Block& block) {
  DotSums<kPixels, kVectors> sums;
  sums.clear();
  const std::int64_t vector = sum.steps * kVectorBytes;
  for (const Tap& tap : sum.taps) {
    const char* vectors[kVectors];
    for (int v = 0; v < kVectors; ++v) vectors[v] = tap.weight + (block.vector + v) * vector;
    sums.add(tap.pixels + block.pixel * sum.pixel_bytes, sum.pixel_bytes, vectors, sum.steps);
  }
  add_to_row(sum, block, sums);
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
