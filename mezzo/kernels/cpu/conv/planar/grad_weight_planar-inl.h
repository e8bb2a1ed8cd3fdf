// Dot products of lines, many at a time. Included once per instruction set, like simd-inl.h.
#if defined(MEZZO_KERNELS_CPU_GRAD_WEIGHT_PLANAR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEZZO_KERNELS_CPU_GRAD_WEIGHT_PLANAR_INL_H_
#undef MEZZO_KERNELS_CPU_GRAD_WEIGHT_PLANAR_INL_H_
#else
#define MEZZO_KERNELS_CPU_GRAD_WEIGHT_PLANAR_INL_H_
#endif

#include <algorithm>

#include "mezzo/kernels/cpu/conv/planar/planar_registers-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {

// Lines of `vectors` vectors, one line per image. The lines of a block of output channels are
// interleaved by vector, image by image; lines of x are `x_image` elements apart.
struct LineRun {
  std::int64_t images = 0, vectors = 0;
  std::int64_t x_image = 0;
  std::int64_t sums_channel = 0;  // elements from one output channel's sums to the next's
  bool first = true;              // the sums begin here
};

// How many of `left` output channels, or of one more, have sums in registers together.
HWY_INLINE int channels_at_once(std::int64_t left) {
#if HWY_TARGET <= HWY_AVX3
  if (left >= 7) return 8;
  if (left >= 5) return 6;
#endif
  if (left >= 3) return 4;
  return left >= 2 ? 2 : 1;
}

// The taps that go with them: sums, taps and one line of dy fill the registers.
constexpr int taps_at_once(int channels) {
#if HWY_TARGET <= HWY_AVX3
  return channels == 8 ? 3 : channels == 6 ? 4 : channels == 4 ? 5 : 8;
#else
  return channels == 4 ? 3 : channels == 2 ? 5 : 8;
#endif
}

// sums[m][t] += grad[m] * x[t], each a vector of partial sums. The loops over sums are unrolled;
// otherwise the sums would not stay in registers. For the same reason there are no calls.
template <int kChannels, int kTaps>
// NOLINTNEXTLINE(readability-function-size)
void multiply_lines(const LineRun& run, const float* grad, const float* const* x,
                    float* const* sums) {
  const F32 d;
  F32Vec totals[kChannels][kTaps];
#pragma GCC unroll 8
  for (int m = 0; m < kChannels; ++m) {
#pragma GCC unroll 8
    for (int t = 0; t < kTaps; ++t) {
      totals[m][t] = run.first ? hn::Zero(d) : hn::LoadU(d, sums[t] + m * run.sums_channel);
    }
  }
  for (std::int64_t image = 0; image < run.images; ++image) {
    const float* from_x[kTaps];
#pragma GCC unroll 8
    for (int t = 0; t < kTaps; ++t) from_x[t] = x[t] + image * run.x_image;
    for (std::int64_t q = 0; q < run.vectors * lanes(); q += lanes()) {
      F32Vec factors[kTaps];
#pragma GCC unroll 8
      for (int t = 0; t < kTaps; ++t) factors[t] = hn::LoadU(d, from_x[t] + q);
#pragma GCC unroll 8
      for (int m = 0; m < kChannels; ++m, grad += lanes()) {
        const F32Vec factor = in_register(hn::LoadU(d, grad));
#pragma GCC unroll 8
        for (int t = 0; t < kTaps; ++t) {
          totals[m][t] = hn::MulAdd(factor, factors[t], totals[m][t]);
        }
      }
    }
  }
#pragma GCC unroll 8
  for (int m = 0; m < kChannels; ++m) {
#pragma GCC unroll 8
    for (int t = 0; t < kTaps; ++t) hn::StoreU(totals[m][t], d, sums[t] + m * run.sums_channel);
  }
}

// Sums kChannels output channels for all of `count` taps: lines of x and vectors of sums.
template <int kChannels>
void multiply_channels(const LineRun& run, const float* grad, const float* const* x,
                       std::int64_t count, float* sums) {
  for_vector_blocks<taps_at_once(kChannels)>(count, [&]<int kTaps>(std::int64_t first) {
    const float* lines[kTaps];
    float* vectors[kTaps];
    for (int t = 0; t < kTaps; ++t) {
      const std::int64_t tap = std::min(first + t, count - 1);
      lines[t] = x[tap];
      vectors[t] = sums + tap * lanes();
    }
    multiply_lines<kChannels, kTaps>(run, grad, lines, vectors);
  });
}

HWY_INLINE void multiply_channels(int channels, const LineRun& run, const float* grad,
                                  const float* const* x, std::int64_t count, float* sums) {
  switch (channels) {
#if HWY_TARGET <= HWY_AVX3
    case 8: return multiply_channels<8>(run, grad, x, count, sums);
    case 6: return multiply_channels<6>(run, grad, x, count, sums);
#endif
    case 4: return multiply_channels<4>(run, grad, x, count, sums);
    case 2: return multiply_channels<2>(run, grad, x, count, sums);
    default: return multiply_channels<1>(run, grad, x, count, sums);
  }
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
