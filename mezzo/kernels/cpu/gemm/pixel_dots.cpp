#include <algorithm>

#include "mezzo/kernels/cpu/gemm/column_sums-inl.h"
#include "mezzo/kernels/cpu/gemm/dots-inl.h"
#include "mezzo/kernels/cpu/gemm/pixel_strips.h"

namespace mezzo::kernels::pixels {

#if MEZZO_TILES

namespace {

// A block of sums fills the registers: 24 sums, 4 vectors of the weight and a pair of x.
constexpr int kRows = 6;
constexpr int kVectors = 4;
constexpr std::int64_t kLanes = 16;
constexpr std::int64_t kPairBytes = 64;  // bytes of a pair of i's by 16 o's

// Where a block of rows begins, and what to prefetch while it is computed.
struct BlockPlace {
  const BFloat16* x = nullptr;
  const char* weight = nullptr;
  BFloat16* y = nullptr;
  bool is_first = false;  // the first block of these rows
};

// Prefetches the lines of the rows that come next.
template <int kCount>
inline void prefetch_rows(const BFloat16* x, std::int64_t inner) {
  for (int r = 0; r < kCount; ++r) __builtin_prefetch(x + (kCount + r) * inner, 0, 2);
}

template <int kCount, int kWide>
inline void prefetch_results(BFloat16* y, std::int64_t outer) {
  for (int r = 0; r < kCount; ++r) {
    for (int v = 0; v < kWide; v += 2) {
      __builtin_prefetch(y + (kCount + r) * outer + v * kLanes, 1, 2);
    }
  }
}

template <int kCount, int kWide>
MEZZO_DOT_TARGET inline void add_up(const Product& p, const BlockPlace& place,
                                    DotSums<kCount, kWide>& sums) {
  const std::int64_t vector = p.inner / 2 * kPairBytes;
  const char* vectors[kWide];
  for (int v = 0; v < kWide; ++v) vectors[v] = place.weight + v * vector;
  sums.clear();
  for (std::int64_t line = 0; line < p.inner; line += kBlock) {
    const BFloat16* x = place.x + line;
    if (place.is_first) prefetch_rows<kCount>(x, p.inner);
    sums.add(reinterpret_cast<const char*>(x), 2 * p.inner, vectors);
#pragma GCC unroll 4
    for (int v = 0; v < kWide; ++v) vectors[v] += kBlock / 2 * kPairBytes;
  }
}

// Computes a block whose first column is `column`.
template <int kCount, int kWide>
MEZZO_DOT_TARGET void compute_block(const Product& p, const BlockPlace& place, std::int64_t column,
                                    const NormPart* part) {
  prefetch_results<kCount, kWide>(place.y, p.outer);
  DotSums<kCount, kWide> sums;
  add_up(p, place, sums);
  __m512i lines[kCount][kWide / 2];
#pragma GCC unroll 4
  for (int v = 0; v < kWide / 2; ++v) {
    const ColumnBias bias(p.bias, column + v * kBlock);
#pragma GCC unroll 8
    for (int r = 0; r < kCount; ++r) {
      lines[r][v] = bias.rounded_line(sums.at[r][2 * v], sums.at[r][2 * v + 1]);
      _mm512_storeu_si512(place.y + r * p.outer + v * kBlock, lines[r][v]);
    }
  }
  if (part == nullptr) return;
#pragma GCC unroll 4
  for (int v = 0; v < kWide / 2; ++v) {
    ColumnSums columns(*part, column + v * kBlock);
#pragma GCC unroll 8
    for (int r = 0; r < kCount; ++r) columns.add(lines[r][v]);
    columns.keep();
  }
}

template <int kWide>
void compute_rows(std::int64_t rows, const Product& p, const BlockPlace& place, std::int64_t column,
                  const NormPart* part) {
  switch (rows) {
    case 1: return compute_block<1, kWide>(p, place, column, part);
    case 2: return compute_block<2, kWide>(p, place, column, part);
    case 3: return compute_block<3, kWide>(p, place, column, part);
    case 4: return compute_block<4, kWide>(p, place, column, part);
    case 5: return compute_block<5, kWide>(p, place, column, part);
    default: return compute_block<kRows, kWide>(p, place, column, part);
  }
}

}  // namespace

void compute_by_dots(const Product& p, const Strip& strip, const NormPart* part) {
  constexpr std::int64_t kWide = kVectors * kLanes;
  for (std::int64_t column = strip.column; column < strip.end_column;) {
    const bool is_wide = column + kWide <= strip.end_column;
    for (std::int64_t done = 0; done < strip.rows; done += kRows) {
      const BlockPlace place{.x = strip.x + done * p.inner,
                             .weight = p.weight + column * p.inner * 2,
                             .y = p.y + (strip.row + done) * p.outer + column,
                             .is_first = column == strip.column};
      const std::int64_t rows = std::min<std::int64_t>(strip.rows - done, kRows);
      is_wide ? compute_rows<kVectors>(rows, p, place, column, part)
              : compute_rows<kVectors / 2>(rows, p, place, column, part);
    }
    column += is_wide ? kWide : kBlock;
  }
}

#elif !MEZZO_NEON_DOTS

void compute_by_dots(const Product&, const Strip&, const NormPart*) {}

#endif

}  // namespace mezzo::kernels::pixels
