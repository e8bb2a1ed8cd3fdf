// Blocks of the sums of row_sums.h by f32 multiply-adds. Included once per instruction set, like
// simd-inl.h.
#if defined(MEZZO_KERNELS_CPU_ROW_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEZZO_KERNELS_CPU_ROW_SUMS_INL_H_
#undef MEZZO_KERNELS_CPU_ROW_SUMS_INL_H_
#else
#define MEZZO_KERNELS_CPU_ROW_SUMS_INL_H_
#endif

#include "mezzo/kernels/cpu/planar_registers-inl.h"
#include "mezzo/kernels/cpu/row_sums.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {

template <int kPixels, int kVectors>
void add_block(const kernels::row_sums::RowSum& sum, const kernels::row_sums::Block& block) {
  const F32 d;
  F32Vec sums[kPixels][kVectors];
#pragma GCC unroll 8
  for (int p = 0; p < kPixels; ++p) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) sums[p][v] = hn::Zero(d);
  }
  const std::int64_t pitch = sum.pixel_bytes / static_cast<std::int64_t>(sizeof(float));
  const std::int64_t vector = sum.steps * lanes();
  for (const kernels::row_sums::Tap& tap : sum.taps) {
    const float* pixels = reinterpret_cast<const float*>(tap.pixels) + block.pixel * pitch;
    const float* weight = reinterpret_cast<const float*>(tap.weight) + block.vector * vector;
    for (std::int64_t i = 0; i < sum.steps; ++i, ++pixels, weight += lanes()) {
      F32Vec factors[kVectors];
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) factors[v] = in_register(load(weight + v * vector));
#pragma GCC unroll 8
      for (int p = 0; p < kPixels; ++p) {
        F32Vec number = hn::Set(d, pixels[p * pitch]);
        if constexpr (kVectors > 1) number = in_register(number);
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v) {
          sums[p][v] = hn::MulAdd(number, factors[v], sums[p][v]);
        }
      }
    }
  }
  const auto last = hn::FirstN(d, static_cast<std::size_t>(sum.last));
#pragma GCC unroll 8
  for (int p = 0; p < kPixels; ++p) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      const bool is_last = block.vector + v + 1 == sum.vectors;
      float* const to = sum.row + (block.pixel + p) * sum.apart + (block.vector + v) * lanes();
      // Behind a piece an infinite number times the zeros there would not be zero.
      const F32Vec added = is_last ? hn::IfThenElseZero(last, sums[p][v]) : sums[p][v];
      store(hn::Add(load(to), added), to);
    }
  }
}

inline void add_row(const kernels::row_sums::RowSum& sum) {
  kernels::row_sums::for_blocks(sum, [&]<int kPixels, int kVectors>(const auto& block) {
    add_block<kPixels, kVectors>(sum, block);
  });
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
