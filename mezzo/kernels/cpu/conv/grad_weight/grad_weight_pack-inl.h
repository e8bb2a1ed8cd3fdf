// Copies images into panels, and normalises them on the way if that is pending. Included once per
// instruction set, like simd-inl.h.
#if defined(MEZZO_KERNELS_CPU_GRAD_WEIGHT_PACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEZZO_KERNELS_CPU_GRAD_WEIGHT_PACK_INL_H_
#undef MEZZO_KERNELS_CPU_GRAD_WEIGHT_PACK_INL_H_
#else
#define MEZZO_KERNELS_CPU_GRAD_WEIGHT_PACK_INL_H_
#endif

#include <algorithm>
#include <array>
#include <vector>

#include "mezzo/core/math.h"
#include "mezzo/kernels/cpu/conv/grad_weight/grad_weight_columns.h"
#include "mezzo/kernels/cpu/conv/grad_weight/grad_weight_plan.h"
#include "mezzo/kernels/cpu/norm/normalized-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {

using kernels::grad_weight::copy_joined_pixel;
using kernels::grad_weight::is_paired;
using kernels::grad_weight::kPanel;
using kernels::grad_weight::pixels_in_place;

// Pixels of one or two image rows, `step` elements apart. A null row stands for zeros.
template <class T>
struct PixelRow {
  const T* a = nullptr;
  const T* b = nullptr;
  std::int64_t pixels = 0;
  std::int64_t channels = 0;
  std::int64_t step = 0;
  std::int64_t first_channel = 0;  // to be copied; the first of a panel

  const T* pixel_a(std::int64_t i) const { return a != nullptr ? a + i * step : nullptr; }
  const T* pixel_b(std::int64_t i) const { return b != nullptr ? b + i * step : nullptr; }

  // Bytes to a pixel that is copied later.
  std::int64_t ahead() const {
    const std::int64_t pixel = step * static_cast<std::int64_t>(sizeof(T));
    return pixel == 0 ? 0 : round_up(kReadAhead, pixel);
  }
};

// Prefetches the channels of a later pixel that share a cache line with channel c.
template <class T>
HWY_INLINE void prefetch_channels(const T* pixel, std::int64_t c, std::int64_t ahead) {
  constexpr std::int64_t kLine = 64 / sizeof(T);
  if (pixel != nullptr && c % kLine == 0) prefetch(pixel + c, ahead);
}

// Packs 16 values of a pixel, from channel c on, as f32.
template <class T, class Read>
HWY_INLINE void pack_single(const T* a, std::int64_t c, std::int64_t channels, const Read& read,
                            float* out) {
  for (std::int64_t v = 0; v < kPanel; v += kMaxLanes) {
    const std::int64_t left = channels - c - v;
    const auto value = a == nullptr || left <= 0 ? hn::Zero(F32())
                       : left >= kMaxLanes       ? read.values(a, c + v, Whole{})
                                                 : read.values(a, c + v, Part{left});
    hn::StoreU(value, F32(), out + v);
  }
}

// The values from channel c on, in the upper halves of 32-bit elements.
template <class Read>
HWY_INLINE hn::Vec<U32> upper_halves(const BFloat16* p, std::int64_t c, std::int64_t channels,
                                     const Read& read) {
  if (p == nullptr || c >= channels) return hn::Zero(U32());
  if (c + kMaxLanes <= channels) return read.upper_halves(p, c, Whole{});
  return read.upper_halves(p, c, Part{channels - c});
}

// Packs 16 values of two pixels, side by side: those of `a` in the lower half of each element.
template <class Read>
HWY_INLINE void pack_pair(const BFloat16* a, const BFloat16* b, std::int64_t c,
                          std::int64_t channels, const Read& read, float* out) {
  for (std::int64_t v = 0; v < kPanel; v += kMaxLanes) {
    const auto lower = hn::ShiftRight<16>(upper_halves(a, c + v, channels, read));
    const auto upper = upper_halves(b, c + v, channels, read);
    hn::StoreU(hn::BitCast(F32(), hn::Or(lower, upper)), F32(), out + v);
  }
}

// Copies both rows' pixels, side by side, to panels that lie `panel` elements apart. It goes pixel
// by pixel, since contiguous values are read faster than strided ones.
template <class Read>
void pack_pairs(const PixelRow<BFloat16>& row, std::int64_t panel, const Read& read, float* out) {
  const std::int64_t ahead = row.ahead();
  for (std::int64_t i = 0; i < row.pixels; ++i, out += kPanel) {
    const BFloat16* const a = row.pixel_a(i);
    const BFloat16* const b = row.pixel_b(i);
    float* to = out;
    for (std::int64_t c = row.first_channel; c < row.channels; c += kPanel, to += panel) {
      prefetch_channels(a, c, ahead);
      prefetch_channels(b, c, ahead);
      pack_pair(a, b, c, row.channels, read, to);
    }
  }
}

// Copies row `a` alone as f32, or both rows as pairs if `paired`.
template <class T, class Read>
void pack_row(const PixelRow<T>& row, bool paired, std::int64_t panel, const Read& read,
              float* out) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    if (paired) return pack_pairs(row, panel, read, out);
  }
  for (std::int64_t i = 0; i < row.pixels; ++i, out += kPanel) {
    const T* const a = row.pixel_a(i);
    float* to = out;
    for (std::int64_t c = row.first_channel; c < row.channels; c += kPanel, to += panel) {
      pack_single(a, c, row.channels, read, to);
    }
  }
}

// Rows of joined pixels. Most are read from the stored row, where they overlap; the others are
// copied one by one.
template <class T>
class JoinedRows {
 public:
  explicit JoinedRows(const kernels::grad_weight::Problem& joined) : problem_(joined) {}

  // Packs all pixels that are made from the stored rows a and b.
  template <class Read>
  void pack(const T* a, const T* b, std::int64_t panel, const Read& read, float* out) {
    const auto& joined = problem_.joined;
    const std::int64_t channels = problem_.in_channels;
    const bool paired = is_paired(problem_.products);
    const auto [begin, end] = pixels_in_place(joined, problem_.x.w);
    const std::int64_t first = joined.first(begin) * joined.channels;
    pack_row(PixelRow<T>{.a = a != nullptr ? a + first : nullptr,
                         .b = b != nullptr ? b + first : nullptr,
                         .pixels = end - begin,
                         .channels = channels,
                         .step = joined.stride * joined.channels},
             paired, panel, read, out + begin * kPanel);
    const auto pack_copied = [&](std::int64_t q) {
      pack_row(PixelRow<T>{copied(a, q, 0), copied(b, q, 1), 1, channels, 0}, paired, panel, read,
               out + q * kPanel);
    };
    for (std::int64_t q = 0; q < begin; ++q) pack_copied(q);
    for (std::int64_t q = end; q < problem_.x.w; ++q) pack_copied(q);
  }

 private:
  const T* copied(const T* row, std::int64_t q, std::size_t half) {
    if (row == nullptr) return nullptr;
    std::vector<T>& pixel = pixels_[half];
    pixel.resize(static_cast<std::size_t>(problem_.in_channels));
    copy_joined_pixel(problem_.joined, row, q, pixel.data());
    return pixel.data();
  }

  const kernels::grad_weight::Problem& problem_;
  std::array<std::vector<T>, 2> pixels_;
};

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
