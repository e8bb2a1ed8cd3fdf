// Writes one line per channel as channels-last pixels: the inverse of separate-inl.h. Included once
// per instruction set, like simd-inl.h.
#if defined(MEZZO_KERNELS_CPU_INTERLEAVE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEZZO_KERNELS_CPU_INTERLEAVE_INL_H_
#undef MEZZO_KERNELS_CPU_INTERLEAVE_INL_H_
#else
#define MEZZO_KERNELS_CPU_INTERLEAVE_INL_H_
#endif

#include <algorithm>
#include <cstring>

#include "mezzo/kernels/cpu/simd/simd-inl.h"
#include "mezzo/kernels/cpu/simd/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {

inline constexpr std::int64_t kMostInterleaved = 8;  // channels
// Pixels per group: lines are read in groups of this size.
inline constexpr std::int64_t kInterleavedPixels = std::max<std::int64_t>(kMaxLanes, 8);

#if HWY_TARGET <= HWY_AVX3

HWY_INLINE hn::Vec<U16> rounded_bits(F32Vec v, const BFloat16* /*type*/) {
  return round_to_bf16(v);
}
HWY_INLINE hn::Vec<U16> rounded_bits(F32Vec v, const Float16* /*type*/) {
  return hn::BitCast(U16(), hn::DemoteTo(F16(), v));
}

// Rounds lines of channels to pixels. A vector of the result takes the values of each channel from
// one vector. All channels use the same permutation: value i of the result belongs to pixel i /
// channels. With an even number of 16-bit channels, values are rounded first, and two channels form
// one column of 32 bits.
template <class T>
class Interleaver {
 public:
  explicit Interleaver(std::int64_t channels)
      : channels_(channels), columns_(is_paired() ? channels / 2 : channels) {
    for (std::int64_t i = 0; i < columns_ * kMaxLanes; ++i) {
      pixels_[i] = static_cast<std::int32_t>(i / columns_);
      Mask& mask = masks_[i / kMaxLanes * kMostInterleaved + i % columns_];
      mask = static_cast<Mask>(mask | 1U << i % kMaxLanes);
    }
  }

  // Rounds the values in `lines`, `step` per channel, to `count` pixels.
  void write(const float* lines, std::int64_t step, std::int64_t count, T* out) const {
    switch (columns_) {
      case 1: return write_columns<1>(lines, step, count, out);
      case 2: return write_columns<2>(lines, step, count, out);
      case 3: return write_columns<3>(lines, step, count, out);
      case 4: return write_columns<4>(lines, step, count, out);
      case 5: return write_columns<5>(lines, step, count, out);
      case 6: return write_columns<6>(lines, step, count, out);
      case 7: return write_columns<7>(lines, step, count, out);
      default: return write_columns<8>(lines, step, count, out);
    }
  }

 private:
  using Mask = std::uint16_t;

  bool is_paired() const { return sizeof(T) == 2 && channels_ % 2 == 0; }

  template <int kColumns>
  void write_columns(const float* lines, std::int64_t step, std::int64_t count, T* out) const {
    if constexpr (sizeof(T) == 2) {
      if (is_paired()) {
        const auto pair = [&](std::int64_t at) HWY_ATTR {
          const U32 d;
          const auto low = hn::PromoteTo(d, rounded_bits(load(lines + at), out));
          const auto high = hn::PromoteTo(d, rounded_bits(load(lines + step + at), out));
          return hn::BitCast(F32(), hn::Or(low, hn::ShiftLeft<16>(high)));
        };
        // These f32 values carry bits only: they are moved, never computed with.
        return permute<kColumns>(pair, 2 * step, count, reinterpret_cast<float*>(out));
      }
    }
    const auto channel = [&](std::int64_t at) HWY_ATTR { return load(lines + at); };
    permute<kColumns>(channel, step, count, out);
  }

  // column(c * step + first) loads a vector of pixels of a column.
  template <int kColumns, class Column, class Out>
  void permute(const Column& column, std::int64_t step, std::int64_t count, Out* out) const {
    const F32 d;
    for (std::int64_t first = 0; first < count; first += kMaxLanes) {
      F32Vec columns[kColumns];
      for (int c = 0; c < kColumns; ++c) columns[c] = column(c * step + first);
      const std::int64_t numbers = std::min(count - first, kMaxLanes) * kColumns;
      for (std::int64_t k = 0; k * kMaxLanes < numbers; ++k, out += kMaxLanes) {
        const auto pixels = hn::SetTableIndices(d, pixels_ + k * kMaxLanes);
        F32Vec all = hn::TableLookupLanes(columns[0], pixels);
        for (int c = 1; c < kColumns; ++c) {
          const auto* const bits = masks_ + k * kMostInterleaved + c;
          const auto lanes = hn::LoadMaskBits(d, reinterpret_cast<const std::uint8_t*>(bits));
          all = hn::IfThenElse(lanes, hn::TableLookupLanes(columns[c], pixels), all);
        }
        const std::int64_t left = numbers - k * kMaxLanes;
        left < kMaxLanes ? store_part(all, out, left) : store(all, out);
      }
    }
  }

  std::int64_t channels_;
  std::int64_t columns_;
  alignas(64) std::int32_t pixels_[kMostInterleaved * kMaxLanes] = {};
  Mask masks_[kMostInterleaved * kMostInterleaved] = {};  // per vector of the result and column
};

#else

// Copies a single channel.
template <class T>
void copy_line(const float* line, std::int64_t count, T* out) {
  std::int64_t i = 0;
  for (; i + lanes() <= count; i += lanes()) store(load(line + i), out + i);
  if (i < count) store_part(load_part(line + i, count - i), out + i, count - i);
}

// The same class without permutations: it transposes square blocks.
template <class T>
class Interleaver {
 public:
  explicit Interleaver(std::int64_t channels) : channels_(channels) {}

  void write(const float* lines, std::int64_t step, std::int64_t count, T* out) const {
    if (channels_ == 1) return copy_line(lines, count, out);
    alignas(64) T rows[kMostInterleaved * kInterleavedPixels] = {};
    alignas(64) T pixels[kMostInterleaved * kInterleavedPixels];
    const T* const end = out + count * channels_;
    for (std::int64_t first = 0; first < count; first += kInterleavedPixels) {
      for (std::int64_t c = 0; c < channels_; ++c) {
        for (std::int64_t i = 0; i < kInterleavedPixels; i += lanes()) {
          store(load(lines + c * step + first + i), rows + c * kInterleavedPixels + i);
        }
      }
      for (std::int64_t i = 0; i < kInterleavedPixels; i += kMostInterleaved) {
        transpose_square<kMostInterleaved, kMostInterleaved>(rows + i, kInterleavedPixels,
                                                             pixels + i * kMostInterleaved);
      }
      // Each pixel is written as eight channels; the next pixel overwrites the surplus ones.
      const T* from = pixels;
      const std::int64_t pixels_left = std::min(count - first, kInterleavedPixels);
      for (std::int64_t i = 0; i < pixels_left; ++i, from += kMostInterleaved, out += channels_) {
        if (end - out >= kMostInterleaved) {
          std::memcpy(out, from, kMostInterleaved * sizeof(T));
        } else {
          std::copy_n(from, channels_, out);
        }
      }
    }
  }

 private:
  std::int64_t channels_;
};

#endif

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
