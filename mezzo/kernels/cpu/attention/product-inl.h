// Products of small matrices whose sums stay in registers. Included once per instruction set, like
// simd-inl.h.
#if defined(MEZZO_KERNELS_CPU_ATTENTION_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEZZO_KERNELS_CPU_ATTENTION_PRODUCT_INL_H_
#undef MEZZO_KERNELS_CPU_ATTENTION_PRODUCT_INL_H_
#else
#define MEZZO_KERNELS_CPU_ATTENTION_PRODUCT_INL_H_
#endif

#include <cstring>
#include <optional>

#include "mezzo/kernels/cpu/attention/product_tiles.h"
#include "mezzo/kernels/cpu/gemm/tiles.h"
#include "mezzo/kernels/cpu/simd/in_register-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE::attention_tiles {

// Rows of a first operand, one number at a time. A number has four bytes: an f32, or two bf16 whose
// products are added.
struct Numbers {
  const void* data = nullptr;
  std::int64_t row = 0;   // bytes from one row to the next
  std::int64_t step = 0;  // bytes from one term to the next

  // The same from row r and term k on.
  Numbers from(std::int64_t r, std::int64_t k) const {
    return {static_cast<const char*>(data) + r * row + k * step, row, step};
  }
};

// sums[r][column] = (sums[r][column] * keep[column] + ) sum over k of a[r][k] b[k][column] scale.
struct Product {
  Numbers a;
  const float* b = nullptr;
  std::int64_t b_row = 0;  // numbers from one term to the next
  float* sums = nullptr;
  std::int64_t sums_row = 0;
  std::int64_t rows = 0;
  std::int64_t terms = 0;
  std::int64_t vectors = 0;     // of columns
  float scale = 1;              // of sums that are not added to earlier ones
  bool adds = false;            // to the earlier sums
  const float* keep = nullptr;  // factors of the earlier sums; null for 1
};

// The vectors of sums per block: with the rows they fill the registers.
inline constexpr int kSumVectors = HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM_A64 ? 4 : 2;
inline constexpr int kSumRows = 6;

// Whether this instruction set may have a dot product of bf16.
inline constexpr bool kMayHaveDots = HWY_TARGET == HWY_AVX3 || HWY_ARCH_ARM_A64;
// Whether it may have a tile unit: vectors are as wide as its tiles.
inline constexpr bool kMayHaveTiles = HWY_TARGET == HWY_AVX3;

// The ways to compute products. The terms of a sum are added in their order, whatever the number of
// rows and columns. Constants say what they ask of operands:
//   kPaired       a number is a pair of bf16, not an f32
//   kRowStep      rows of a are read, and those of sums written, up to a multiple of it
//   kTermStep     terms are read up to a multiple of it; beyond the last they must be 0, in both
//                 operands, since 0 times what memory holds may be NaN
//   kTermsAdjoin  the terms of a row of a must lie side by side
//   kStripKeys    keys of a strip of scores: whole steps of rows, and of terms

// In f32, by multiply-adds.
struct F32Products {
  static constexpr bool kPaired = false;
  static constexpr std::int64_t kRowStep = 1;
  static constexpr std::int64_t kTermStep = 1;
  static constexpr bool kTermsAdjoin = false;
  static constexpr std::int64_t kStripKeys = 16;

  void multiply(const Product& p) const;
  // What a thread holds while it multiplies.
  std::optional<kernels::TileRegisters> registers() const { return std::nullopt; }
};

// By the CPU's dot product of bf16.
struct DotProducts : F32Products {
  static constexpr bool kPaired = true;

  void multiply(const Product& p) const;
};

// On the tile unit, or on what stands in for it. Sums that are scaled, or added to scaled ones, are
// so in memory: the unit has no other arithmetic than products.
struct TileProducts {
  static constexpr bool kPaired = true;
  static constexpr std::int64_t kRowStep = kernels::kTileRows;
  static constexpr std::int64_t kTermStep = kernels::kTileRows;
  static constexpr bool kTermsAdjoin = true;
  static constexpr std::int64_t kStripKeys = 2 * kTermStep;

  const kernels::attention::TileUnit& unit;

  void multiply(const Product& p) const;
  kernels::UnitRegisters registers() const {
    return kernels::UnitRegisters(unit.has_registers ? kernels::Bf16Unit::kTiles
                                                     : kernels::Bf16Unit::kDots);
  }
};

}  // namespace mezzo::HWY_NAMESPACE::attention_tiles
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
