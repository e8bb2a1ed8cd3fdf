// Writing lines of channels as channels-last pixels: the opposite of separate-inl.h. Included once
// per instruction set, like simd-inl.h.
#if defined(MEZZO_KERNELS_CPU_INTERLEAVE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEZZO_KERNELS_CPU_INTERLEAVE_INL_H_
#undef MEZZO_KERNELS_CPU_INTERLEAVE_INL_H_
#else
#define MEZZO_KERNELS_CPU_INTERLEAVE_INL_H_
#endif

#include <algorithm>
#include <cstring>

#include "mezzo/kernels/cpu/simd-inl.h"
#include "mezzo/kernels/cpu/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {

inline constexpr std::int64_t kMostInterleaved = 8;  // channels
inline constexpr std::int64_t kInterleavedPixels = std::max<std::int64_t>(kMaxLanes, 8);

// A single channel.
template <class T>
void copy_line(const float* line, std::int64_t count, T* out) {
  std::int64_t i = 0;
  for (; i + lanes() <= count; i += lanes()) store(load(line + i), out + i);
  if (i < count) store_part(load_part(line + i, count - i), out + i, count - i);
}

// Rounds what `lines` holds, `step` numbers per channel, to `count` pixels of at most 8 channels.
// Lines are read in groups of kInterleavedPixels.
template <class T>
void interleave(const float* lines, std::int64_t step, std::int64_t channels, std::int64_t count,
                T* out) {
  if (channels == 1) return copy_line(lines, count, out);
  alignas(64) T rows[kMostInterleaved * kInterleavedPixels] = {};
  alignas(64) T pixels[kMostInterleaved * kInterleavedPixels];
  const T* const end = out + count * channels;
  for (std::int64_t first = 0; first < count; first += kInterleavedPixels) {
    for (std::int64_t c = 0; c < channels; ++c) {
      for (std::int64_t i = 0; i < kInterleavedPixels; i += lanes()) {
        store(load(lines + c * step + first + i), rows + c * kInterleavedPixels + i);
      }
    }
    for (std::int64_t i = 0; i < kInterleavedPixels; i += kMostInterleaved) {
      transpose_square<kMostInterleaved, kMostInterleaved>(rows + i, kInterleavedPixels,
                                                           pixels + i * kMostInterleaved);
    }
    // Each pixel is written as eight channels: those of the next one come after it.
    const T* from = pixels;
    const std::int64_t pixels_left = std::min(count - first, kInterleavedPixels);
    for (std::int64_t i = 0; i < pixels_left; ++i, from += kMostInterleaved, out += channels) {
      if (end - out >= kMostInterleaved) {
        std::memcpy(out, from, kMostInterleaved * sizeof(T));
      } else {
        std::copy_n(from, channels, out);
      }
    }
  }
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
