// Epilogues of a bf16 product's f32 sums: adding the bias, rounding to lines of the result, and
// column sums for batch normalization.
#pragma once

#include <cstdint>

#include "mezzo/kernels/cpu/gemm/tiles-inl.h"
#include "mezzo/kernels/cpu/norm/norm_sums.h"

#if MEZZO_TILES

namespace mezzo::kernels::pixels {

// Adds up 32 columns of the result, as two vectors of 16.
class ColumnSums {
 public:
  MEZZO_DOT_TARGET ColumnSums(const NormPart& part, std::int64_t column)
      : part_(part), column_(column) {
    for (std::int64_t i = 0; i < 2; ++i) {
      shift_[i] = _mm512_loadu_ps(part[NormPart::kShift] + column + i * kLanes);
      sum_[i] = _mm512_loadu_ps(part[NormPart::kChunkSum] + column + i * kLanes);
      squares_[i] = _mm512_loadu_ps(part[NormPart::kChunkSquares] + column + i * kLanes);
    }
  }

  // Adds a line, by the same instructions as batch_norm.
  MEZZO_DOT_TARGET void add(__m512i row) {
    add(0, _mm512_castsi512_si256(row));
    add(1, _mm512_extracti64x4_epi64(row, 1));
  }

  MEZZO_DOT_TARGET void keep() const {
    for (std::int64_t i = 0; i < 2; ++i) {
      _mm512_storeu_ps(part_[NormPart::kChunkSum] + column_ + i * kLanes, sum_[i]);
      _mm512_storeu_ps(part_[NormPart::kChunkSquares] + column_ + i * kLanes, squares_[i]);
    }
  }

 private:
  static constexpr std::int64_t kLanes = 16;

  MEZZO_DOT_TARGET void add(int i, __m256i half) {
    const __m512 x = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
    const __m512 v = _mm512_sub_ps(x, shift_[i]);
    sum_[i] = _mm512_add_ps(sum_[i], v);
    squares_[i] = _mm512_fmadd_ps(v, v, squares_[i]);
  }

  const NormPart& part_;
  std::int64_t column_;
  __m512 shift_[2], sum_[2], squares_[2];
};

// The bias of 32 columns, as two vectors of 16.
class ColumnBias {
 public:
  // `bias` may be null. Then -0 is added, which changes no value, not even the sign of a zero.
  MEZZO_DOT_TARGET ColumnBias(const float* bias, std::int64_t column)
      : first_(bias == nullptr ? _mm512_set1_ps(-0.0F) : _mm512_loadu_ps(bias + column)),
        second_(bias == nullptr ? first_ : _mm512_loadu_ps(bias + column + kLanes)) {}

  // Adds the bias to 32 sums and returns a line of the result. It is rounded once, to nearest, ties
  // to even, and subnormals become zero, as core/half.h says.
  MEZZO_DOT_TARGET __m512i rounded_line(__m512 first, __m512 second) const {
    return reinterpret_cast<__m512i>(
        _mm512_cvtne2ps_pbh(_mm512_add_ps(second, second_), _mm512_add_ps(first, first_)));
  }

 private:
  static constexpr std::int64_t kLanes = 16;

  __m512 first_, second_;
};

}  // namespace mezzo::kernels::pixels

#endif
