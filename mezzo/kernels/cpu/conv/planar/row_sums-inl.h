// The sums of row_sums.h by f32 multiply-adds. Included once per instruction set, like simd-inl.h.
#if defined(MEZZO_KERNELS_CPU_ROW_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEZZO_KERNELS_CPU_ROW_SUMS_INL_H_
#undef MEZZO_KERNELS_CPU_ROW_SUMS_INL_H_
#else
#define MEZZO_KERNELS_CPU_ROW_SUMS_INL_H_
#endif

#include "mezzo/kernels/cpu/conv/planar/planar_registers-inl.h"
#include "mezzo/kernels/cpu/conv/planar/row_sums.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {

using kernels::row_sums::Block;
using kernels::row_sums::RowSum;
using kernels::row_sums::Tap;

// The loops over sums are unrolled, or the sums would not stay in registers.
template <bool kPaired, int kPixels, int kVectors>
HWY_INLINE void multiply_tap(const RowSum& sum, const Block& block, const Tap& tap,
                             F32Vec (&sums)[kPixels][kVectors]) {
  const std::int64_t pitch = sum.pixel_bytes / static_cast<std::int64_t>(sizeof(float));
  const std::int64_t vector = sum.steps * lanes();
  const float* pixels = reinterpret_cast<const float*>(tap.pixels) + block.pixel * pitch;
  const float* weight = reinterpret_cast<const float*>(tap.weight) + block.vector * vector;
  for (std::int64_t i = 0; i < sum.steps; ++i, ++pixels, weight += lanes()) {
    F32Vec factors[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) factors[v] = in_register(load(weight + v * vector));
#pragma GCC unroll 8
    for (int p = 0; p < kPixels; ++p) {
      F32Vec number = hn::Set(F32(), pixels[p * pitch]);
      if constexpr (kVectors > 1) number = in_register(number);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        sums[p][v] = multiply_add<kPaired>(number, factors[v], sums[p][v]);
      }
    }
  }
}

template <int kPixels, int kVectors>
HWY_INLINE void add_to_row(const RowSum& sum, const Block& block,
                           const F32Vec (&sums)[kPixels][kVectors]) {
  const auto last = hn::FirstN(F32(), static_cast<std::size_t>(sum.last));
#pragma GCC unroll 8
  for (int p = 0; p < kPixels; ++p) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      const bool is_last = block.vector + v + 1 == sum.vectors;
      float* const to = sum.row + (block.pixel + p) * sum.apart + (block.vector + v) * lanes();
      // After a piece, an infinite value times the zeros there would not be zero.
      const F32Vec added = is_last ? hn::IfThenElseZero(last, sums[p][v]) : sums[p][v];
      store(hn::Add(load(to), added), to);
    }
  }
}

template <bool kPaired, int kPixels, int kVectors>
void add_block(const RowSum& sum, const Block& block) {
  F32Vec sums[kPixels][kVectors];
#pragma GCC unroll 8
  for (int p = 0; p < kPixels; ++p) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) sums[p][v] = hn::Zero(F32());
  }
  for (const Tap& tap : sum.taps) multiply_tap<kPaired>(sum, block, tap, sums);
  add_to_row(sum, block, sums);
}

template <bool kPaired>
void add_row_of(const RowSum& sum) {
  // Their sums, two vectors of the weight and a number fill the registers.
  constexpr int kPixels = HWY_TARGET <= HWY_AVX3 ? 8 : 6;
  kernels::row_sums::for_blocks<kPixels>(sum, [&]<int kPixels, int kVectors>(const Block& block) {
    add_block<kPaired, kPixels, kVectors>(sum, block);
  });
}

inline void add_row(const RowSum& sum, bool by_dots) {
  if (!by_dots) return add_row_of<false>(sum);
#if HWY_ARCH_ARM_A64
  add_row_of<true>(sum);
#else
  kernels::row_sums::add_row_by_dots(sum);
#endif
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
