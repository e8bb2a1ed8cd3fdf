// A bf16 product of matrix rows that are read in place: the core of cpu_pixels, the method for 1x1
// convolutions.
#pragma once

#include <cstdint>

#include "mezzo/core/half.h"
#include "mezzo/kernels/cpu/gemm/tiles.h"
#include "mezzo/kernels/cpu/loops/cache_sizes.h"
#include "mezzo/kernels/cpu/norm/norm_arrays.h"
#include "mezzo/kernels/cpu/norm/norm_sums.h"

namespace mezzo::kernels::pixels {

// Sizes must be multiples of kBlock: the columns of a line of the result, and the elements of a row
// that a tile takes.
inline constexpr std::int64_t kBlock = 32;
// The bytes of the weight that are read for every strip; they stay in the second-level cache.
inline constexpr std::int64_t kChunkBytes = kCachesWithTiles.second / 4;

using Unit = Bf16Unit;

// Rows that are computed together: two tiles of them, or as many as share a block of the weight in
// the first-level cache.
inline constexpr std::int64_t rows_of_strip(Unit unit) { return unit == Unit::kTiles ? 32 : 48; }

// y[r][o] = bias[o] + sum over i of x[r][i] * weight[o][i]. Rows are dense and contiguous; inner
// and outer are multiples of kBlock. With a norm, x is the normalised form of the stored rows: they
// are normalised strip by strip, once per chunk of the weight.
struct Product {
  Unit unit = Unit::kTiles;
  const BFloat16* x = nullptr;
  // Tiles [outer / 16][inner / 32], each of 16 pairs of i's by 16 o's.
  const char* weight = nullptr;
  const float* bias = nullptr;  // null: no bias
  BFloat16* y = nullptr;
  std::int64_t inner = 0, outer = 0;
  const NormArrays* norm = nullptr;
};

struct Range {
  std::int64_t begin = 0, end = 0;
};
// Computes these rows on the calling thread. `columns` begins and ends at multiples of kBlock.
void multiply(const Product& product, const Range& rows, const Range& columns);
// Computes all rows of a part and adds them up for the statistics as they are rounded.
void multiply_and_sum(const Product& product, const NormSums& sums, int part);

}  // namespace mezzo::kernels::pixels
