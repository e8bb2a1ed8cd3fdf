// Sums of a few output channels over adjacent pixels. Included once per instruction set, like
// simd-inl.h.
#if defined(MEZZO_KERNELS_CPU_CONV2D_PLANAR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEZZO_KERNELS_CPU_CONV2D_PLANAR_INL_H_
#undef MEZZO_KERNELS_CPU_CONV2D_PLANAR_INL_H_
#else
#define MEZZO_KERNELS_CPU_CONV2D_PLANAR_INL_H_
#endif

#include <algorithm>

#include "mezzo/kernels/cpu/conv/planar/planar_registers-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {

// How many of `left` output channels have sums in registers together; vectors_of_sums() is the
// number of pixel vectors for each.
HWY_INLINE int sums_at_once(std::int64_t left) {
  constexpr std::int64_t kMost = HWY_TARGET <= HWY_AVX3 ? 8 : 4;
  return static_cast<int>(std::min(left, kMost));
}
constexpr int vectors_of_sums(int channels) {
#if HWY_TARGET <= HWY_AVX3
  return channels > 6 ? 3 : channels > 4 ? 4 : channels == 4 ? 5 : channels == 3 ? 6 : 8;
#else
  return channels > 2 ? 3 : channels == 2 ? 5 : 7;
#endif
}

// The lines that the taps of an image read. Each line has a group of factors, one per output
// channel of the block.
struct TapRun {
  const float* const* taps = nullptr;
  std::int64_t count = 0;
  const float* factors = nullptr;
  const float* first = nullptr;   // initial values of the sums; null: the sums continue
  std::int64_t sums_channel = 0;  // elements from one output channel's sums to the next's
};

// sums[m][at[k]] += factors[m] * taps[t][at[k]] for all taps. The loops over sums are unrolled;
// otherwise the sums would not stay in registers.
template <int kChannels, int kVectors>
void add_taps(const TapRun& run, const std::int64_t (&at)[kVectors], float* sums) {
  const F32 d;
  F32Vec totals[kChannels][kVectors];
#pragma GCC unroll 8
  for (int m = 0; m < kChannels; ++m) {
#pragma GCC unroll 8
    for (int k = 0; k < kVectors; ++k) {
      totals[m][k] = run.first != nullptr ? hn::Set(d, run.first[m])
                                          : hn::LoadU(d, sums + m * run.sums_channel + at[k]);
    }
  }
  const float* factors = run.factors;
  for (std::int64_t t = 0; t < run.count; ++t, factors += kChannels) {
    const float* const x = run.taps[t];
    F32Vec pixels[kVectors];
#pragma GCC unroll 8
    for (int k = 0; k < kVectors; ++k) pixels[k] = in_register(hn::LoadU(d, x + at[k]));
#pragma GCC unroll 8
    for (int m = 0; m < kChannels; ++m) {
      const F32Vec factor = in_register(hn::Set(d, factors[m]));
#pragma GCC unroll 8
      for (int k = 0; k < kVectors; ++k) {
        totals[m][k] = hn::MulAdd(factor, pixels[k], totals[m][k]);
      }
    }
  }
#pragma GCC unroll 8
  for (int m = 0; m < kChannels; ++m) {
#pragma GCC unroll 8
    for (int k = 0; k < kVectors; ++k) {
      hn::StoreU(totals[m][k], d, sums + m * run.sums_channel + at[k]);
    }
  }
}

// Adds all taps for kChannels output channels over `count` vectors of pixels.
template <int kChannels>
void add_taps_to_block(const TapRun& run, std::int64_t count, float* sums) {
  for_vector_blocks<vectors_of_sums(kChannels)>(count, [&]<int kVectors>(std::int64_t first) {
    std::int64_t at[kVectors];
    for (int k = 0; k < kVectors; ++k) at[k] = std::min(first + k, count - 1) * lanes();
    add_taps<kChannels, kVectors>(run, at, sums);
  });
}

HWY_INLINE void add_taps_to_block(int channels, const TapRun& run, std::int64_t count,
                                  float* sums) {
  switch (channels) {
#if HWY_TARGET <= HWY_AVX3
    case 8: return add_taps_to_block<8>(run, count, sums);
    case 7: return add_taps_to_block<7>(run, count, sums);
    case 6: return add_taps_to_block<6>(run, count, sums);
    case 5: return add_taps_to_block<5>(run, count, sums);
#endif
    case 4: return add_taps_to_block<4>(run, count, sums);
    case 3: return add_taps_to_block<3>(run, count, sums);
    case 2: return add_taps_to_block<2>(run, count, sums);
    default: return add_taps_to_block<1>(run, count, sums);
  }
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
