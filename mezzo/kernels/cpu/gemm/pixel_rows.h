// Rows of a bf16 product, multiplied where they lie.
#pragma once

#include <cstdint>

#include "mezzo/core/half.h"
#include "mezzo/kernels/cpu/gemm/tiles.h"
#include "mezzo/kernels/cpu/norm/norm_arrays.h"
#include "mezzo/kernels/cpu/norm/norm_sums.h"

namespace mezzo::kernels::pixels {

// Sizes must be multiples of that: columns of a result's line, numbers of a row that a tile takes.
inline constexpr std::int64_t kBlock = 32;
// So much of the weight is read for every strip and stays in the second-level cache.
inline constexpr std::int64_t kChunkBytes = 512 << 10;

using Unit = Bf16Unit;

// Rows that are computed together: two tiles of them, or what shares a block of the weight in the
// first-level cache.
inline constexpr std::int64_t rows_of_strip(Unit unit) { return unit == Unit::kTiles ? 32 : 48; }

// y[r][o] = bias[o] + sum over i of x[r][i] * weight[o][i]. Rows are dense and follow each other,
// inner and outer are multiples of kBlock. With a norm, x is what that gives for the stored rows:
// they are normalised strip by strip, once for every chunk of the weight.
struct Product {
  Unit unit = Unit::kTiles;
  const BFloat16* x = nullptr;
  // Tiles [outer / 16][inner / 32], each of 16 pairs of i's by 16 o's.
  const char* weight = nullptr;
  const float* bias = nullptr;  // or none
  BFloat16* y = nullptr;
  std::int64_t inner = 0, outer = 0;
  const NormArrays* norm = nullptr;
};

struct Range {
  std::int64_t begin = 0, end = 0;
};
// Computes these rows on this thread. Columns are cut between multiples of kBlock.
void multiply(const Product& product, const Range& rows, const Range& columns);
// The same for all rows of a part, which are added up as they are rounded.
void multiply_and_sum(const Product& product, const NormSums& sums, int part);

}  // namespace mezzo::kernels::pixels
