#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mezzo/kernels/cpu/attention/product.cpp"
#include <hwy/foreach_target.h>

#include "mezzo/kernels/cpu/attention/product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE::attention_tiles {
namespace {

HWY_INLINE F32Vec number_at(const char* from) {
  float number = 0;
  std::memcpy(&number, from, sizeof(number));
  return in_register(hn::Set(F32(), number));
}

// Writes the sums of a block. Loops over sums are unrolled, or the sums would not stay in
// registers.
template <int kRows, int kVectors>
HWY_INLINE void write_sums(const Product& p, const F32Vec (&sums)[kRows][kVectors],
                           std::int64_t row, std::int64_t column) {
  float* to = p.sums + row * p.sums_row + column;
  for (int r = 0; r < kRows; ++r, to += p.sums_row) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      float* const at = to + v * lanes();
      if (!p.adds) {
        store(hn::Mul(sums[r][v], hn::Set(F32(), p.scale)), at);
      } else if (p.keep != nullptr) {
        store(hn::MulAdd(load(at), load(p.keep + column + v * lanes()), sums[r][v]), at);
      } else {
        store(hn::Add(load(at), sums[r][v]), at);
      }
    }
  }
}

template <bool kPaired, int kRows, int kVectors>
void multiply_block(const Product& p, std::int64_t row, std::int64_t column) {
  F32Vec sums[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sums[r][v] = hn::Zero(F32());
  }
  const char* a = static_cast<const char*>(p.a.data) + row * p.a.row;
  const float* b = p.b + column;
  for (std::int64_t k = 0; k < p.terms; ++k, a += p.a.step, b += p.b_row) {
    F32Vec factors[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) factors[v] = in_register(load(b + v * lanes()));
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const F32Vec number = number_at(a + r * p.a.row);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        sums[r][v] = multiply_add<kPaired>(number, factors[v], sums[r][v]);
      }
    }
  }
  write_sums<kRows, kVectors>(p, sums, row, column);
}

// The last rows, fewer than kRows + 1.
template <bool kPaired, int kRows, int kVectors>
void multiply_last(const Product& p, std::int64_t row, std::int64_t column) {
  if (p.rows - row == kRows) return multiply_block<kPaired, kRows, kVectors>(p, row, column);
  if constexpr (kRows > 1) multiply_last<kPaired, kRows - 1, kVectors>(p, row, column);
}

template <bool kPaired, int kVectors>
void multiply_columns(const Product& p, std::int64_t column) {
  std::int64_t row = 0;
  for (; row + kSumRows <= p.rows; row += kSumRows) {
    multiply_block<kPaired, kSumRows, kVectors>(p, row, column);
  }
  if (row < p.rows) multiply_last<kPaired, kSumRows - 1, kVectors>(p, row, column);
}

template <bool kPaired, int kVectors>
void multiply_last_columns(const Product& p, std::int64_t vector) {
  if (p.vectors - vector == kVectors) {
    return multiply_columns<kPaired, kVectors>(p, vector * lanes());
  }
  if constexpr (kVectors > 1) multiply_last_columns<kPaired, kVectors - 1>(p, vector);
}

template <bool kPaired>
void multiply_by_vectors(const Product& p) {
  std::int64_t vector = 0;
  for (; vector + kSumVectors <= p.vectors; vector += kSumVectors) {
    multiply_columns<kPaired, kSumVectors>(p, vector * lanes());
  }
  if (vector < p.vectors) multiply_last_columns<kPaired, kSumVectors - 1>(p, vector);
}

// Multiplies sums by factor(column), a vector. Most factors are 1: maxima seldom grow.
template <class Factor>
void scale_sums(const Product& p, const Factor& factor) {
  for (std::int64_t v = 0; v < p.vectors; ++v) {
    const F32Vec by = factor(v * lanes());
    if (hn::AllTrue(F32(), hn::Eq(by, hn::Set(F32(), 1.0F)))) continue;
    float* at = p.sums + v * lanes();
    for (std::int64_t r = 0; r < p.rows; ++r, at += p.sums_row) store(hn::Mul(load(at), by), at);
  }
}

}  // namespace

void F32Products::multiply(const Product& p) const { multiply_by_vectors<false>(p); }

#if HWY_TARGET == HWY_AVX3 || HWY_ARCH_ARM_A64
void DotProducts::multiply(const Product& p) const { multiply_by_vectors<true>(p); }
#endif

#if HWY_TARGET == HWY_AVX3
void TileProducts::multiply(const Product& p) const {
  constexpr std::int64_t kNumber = sizeof(float);
  if (p.keep != nullptr) {
    scale_sums(p, [&](std::int64_t column) HWY_ATTR { return load(p.keep + column); });
  }
  unit.multiply({.a = static_cast<const char*>(p.a.data),
                 .a_row = p.a.row,
                 .b = reinterpret_cast<const char*>(p.b),
                 .b_row = p.b_row * kNumber,
                 .sums = reinterpret_cast<char*>(p.sums),
                 .sums_row = p.sums_row * kNumber,
                 .row_tiles = ceil_div(p.rows, kRowStep),
                 .term_tiles = ceil_div(p.terms, kTermStep),
                 .column_tiles = p.vectors,
                 .adds = p.adds});
  if (!p.adds) {
    scale_sums(p, [&](std::int64_t) HWY_ATTR { return hn::Set(F32(), p.scale); });
  }
}
#endif

}  // namespace mezzo::HWY_NAMESPACE::attention_tiles
HWY_AFTER_NAMESPACE();
