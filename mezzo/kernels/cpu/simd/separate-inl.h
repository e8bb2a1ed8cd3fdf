// Copies channels-last pixels to one f32 line per channel. Included once per instruction set, like
// simd-inl.h.
#if defined(MEZZO_KERNELS_CPU_SEPARATE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEZZO_KERNELS_CPU_SEPARATE_INL_H_
#undef MEZZO_KERNELS_CPU_SEPARATE_INL_H_
#else
#define MEZZO_KERNELS_CPU_SEPARATE_INL_H_
#endif

#include <algorithm>
#include <type_traits>

#include "mezzo/kernels/cpu/simd/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {

// `count` pixels, each `step` elements after the one before, and the channels [first, end) of them.
template <class T>
struct Pixels {
  const T* at = nullptr;
  std::int64_t step = 0, count = 0;
  std::int64_t first = 0, end = 0;
  const T* limit = nullptr;  // end of the readable memory
};

// Where the vectors of a channel's pixels go: vector i to at + i * step.
struct ChannelLine {
  float* at = nullptr;
  std::int64_t step = 0;

  float* vector(std::int64_t i) const { return at + i * step; }
};

// Copies pixels one element at a time. `out` has one line per channel, from pixels.first on. Lines
// are written in whole vectors from vector `begin` on; zeros follow the last pixel.
template <class T>
void separate_one_by_one(const Pixels<T>& pixels, const ChannelLine* out, std::int64_t begin) {
  for (std::int64_t c = pixels.first; c < pixels.end; ++c) {
    const ChannelLine& line = out[c - pixels.first];
    for (std::int64_t i = 0; i < pixels.count; i += lanes()) {
      float* to = line.vector(begin + i / lanes());
      for (std::int64_t lane = 0; lane < lanes(); ++lane) {
        const bool inside = i + lane < pixels.count;
        to[lane] = inside ? static_cast<float>(pixels.at[(i + lane) * pixels.step + c]) : 0.0F;
      }
    }
  }
}

template <class T>
void widen_line(const Pixels<T>& pixels, const ChannelLine& out, std::int64_t begin) {
  for (std::int64_t i = 0; i < pixels.count; i += lanes(), ++begin) {
    const std::int64_t count = pixels.count - i;
    const T* from = pixels.at + i;
    store(count >= lanes() ? load(from) : load_part(from, count), out.vector(begin));
  }
}

#if HWY_TARGET <= HWY_AVX2

using I32 = hn::RebindToSigned<F32>;

HWY_INLINE F32Vec lower_half(const BFloat16*, hn::Vec<U32> words) {
  return hn::BitCast(F32(), hn::ShiftLeft<16>(words));
}
HWY_INLINE F32Vec upper_half(const BFloat16*, hn::Vec<U32> words) {
  return hn::BitCast(F32(), hn::And(words, hn::Set(U32(), 0xffff0000U)));
}
HWY_INLINE F32Vec lower_half(const Float16*, hn::Vec<U32> words) {
  return hn::PromoteTo(F32(), hn::BitCast(F16(), hn::TruncateTo(U16(), words)));
}
HWY_INLINE F32Vec upper_half(const Float16* type, hn::Vec<U32> words) {
  return lower_half(type, hn::ShiftRight<16>(words));
}

// How many channels a 32-bit word holds.
template <class T>
inline constexpr std::int64_t kPerWord = 4 / sizeof(T);

// Widens words that begin at `channel`, and stores those of their channels that are in [first,
// end). out[0] is the line of channel `first`.
template <class T>
HWY_INLINE void put_words(hn::Vec<U32> words, std::int64_t channel, std::int64_t first,
                          std::int64_t end, const ChannelLine* out, std::int64_t vector) {
  if constexpr (std::is_same_v<T, float>) {
    if (channel >= first && channel < end) {
      store(hn::BitCast(F32(), words), out[channel - first].vector(vector));
    }
  } else {
    const T* const type = nullptr;
    if (channel >= first && channel < end) {
      store(lower_half(type, words), out[channel - first].vector(vector));
    }
    if (channel + 1 >= first && channel + 1 < end) {
      store(upper_half(type, words), out[channel + 1 - first].vector(vector));
    }
  }
}

// Copies one vector of pixels, or fewer at the end, by gather instructions.
template <class T>
void separate_by_gathering(const Pixels<T>& pixels, const ChannelLine* out, std::int64_t vector) {
  const I32 i32;
  const auto bytes = static_cast<std::int32_t>(pixels.step * static_cast<std::int64_t>(sizeof(T)));
  // Lanes beyond the last pixel read that pixel again; the mask discards it.
  const auto last = static_cast<std::int32_t>(pixels.count - 1);
  const auto indices = hn::Min(hn::Iota(i32, 0), hn::Set(i32, last));
  const auto offsets = hn::Mul(indices, hn::Set(i32, bytes));
  const auto mask = hn::FirstN(U32(), static_cast<std::size_t>(pixels.count));
  for (std::int64_t c = pixels.first; c < pixels.end; c += kPerWord<T>) {
    // A word that began at the last channel could end beyond the last pixel.
    const std::int64_t channel = std::max<std::int64_t>(std::min(c, pixels.end - kPerWord<T>), 0);
    const auto* words = reinterpret_cast<const std::uint32_t*>(pixels.at + channel);
    const auto v = hn::IfThenElseZero(mask, hn::GatherOffset(U32(), words, offsets));
    put_words<T>(v, channel, c, pixels.end, out + (c - pixels.first), vector);
  }
}

// Loads four words of each of the pixels 0, 4, 8, ...
HWY_INLINE hn::Vec<U32> load_quads(const std::byte* p, std::int64_t step) {
  const hn::FixedTag<std::uint32_t, 4> quad;
  const auto load_quad = [&](std::int64_t pixel) HWY_ATTR {
    return hn::LoadU(quad, reinterpret_cast<const std::uint32_t*>(p + pixel * step));
  };
  const hn::FixedTag<std::uint32_t, 8> pair;
#if HWY_TARGET <= HWY_AVX3
  return hn::Combine(U32(), hn::Combine(pair, load_quad(12), load_quad(8)),
                     hn::Combine(pair, load_quad(4), load_quad(0)));
#else
  return hn::Combine(pair, load_quad(4), load_quad(0));
#endif
}

// Copies one vector of pixels, four words of each at a time. This is faster than gathering if there
// are more than two words.
template <class T>
void separate_by_transposing(const Pixels<T>& pixels, const ChannelLine* out, std::int64_t vector) {
  constexpr std::int64_t kChannels = 4 * kPerWord<T>;
  const hn::Repartition<std::uint64_t, U32> u64;
  const auto pair = [&](hn::Vec<U32> v) HWY_ATTR { return hn::BitCast(u64, v); };
  const std::int64_t step = pixels.step * static_cast<std::int64_t>(sizeof(T));
  for (std::int64_t c = pixels.first; c < pixels.end; c += kChannels) {
    const std::int64_t first = std::max<std::int64_t>(std::min(c, pixels.end - kChannels), 0);
    const auto* p = reinterpret_cast<const std::byte*>(pixels.at + first);
    const auto a0 = load_quads(p, step);
    const auto a1 = load_quads(p + step, step);
    const auto a2 = load_quads(p + 2 * step, step);
    const auto a3 = load_quads(p + 3 * step, step);
    const auto lower01 = pair(hn::InterleaveLower(U32(), a0, a1));
    const auto lower23 = pair(hn::InterleaveLower(U32(), a2, a3));
    const auto upper01 = pair(hn::InterleaveUpper(U32(), a0, a1));
    const auto upper23 = pair(hn::InterleaveUpper(U32(), a2, a3));
    const auto put = [&](std::int64_t word, hn::Vec<decltype(u64)> v) HWY_ATTR {
      put_words<T>(hn::BitCast(U32(), v), first + word * kPerWord<T>, c, pixels.end,
                   out + (c - pixels.first), vector);
    };
    put(0, hn::InterleaveLower(u64, lower01, lower23));
    put(1, hn::InterleaveUpper(u64, lower01, lower23));
    put(2, hn::InterleaveLower(u64, upper01, upper23));
    put(3, hn::InterleaveUpper(u64, upper01, upper23));
  }
}

// Copies one vector of pixels, or fewer at the end.
template <class T>
void separate_vector(const Pixels<T>& pixels, const ChannelLine* out, std::int64_t vector) {
  constexpr std::int64_t kQuad = 4 * kPerWord<T>;
  const T* const last = pixels.at + (pixels.count - 1) * pixels.step;
  const bool may_read_quads = pixels.limit - last >= std::max(pixels.end, kQuad);
  if (pixels.count == lanes() && pixels.end - pixels.first > 2 * kPerWord<T> && may_read_quads) {
    separate_by_transposing(pixels, out, vector);
  } else {
    separate_by_gathering(pixels, out, vector);
  }
}

#endif

template <class T>
void separate(const Pixels<T>& pixels, const ChannelLine* out, std::int64_t begin) {
  if (pixels.count == 0) return;
  if (pixels.step == 1) return widen_line(pixels, *out, begin);
#if HWY_TARGET <= HWY_AVX2
  const T* const last = pixels.at + (pixels.count - 1) * pixels.step;
  if (pixels.limit - last >= std::max(pixels.end, kPerWord<T>)) {
    Pixels<T> part = pixels;
    for (std::int64_t i = 0; i < pixels.count; i += lanes(), ++begin) {
      part.at = pixels.at + i * pixels.step;
      part.count = std::min(pixels.count - i, lanes());
      separate_vector(part, out, begin);
    }
    return;
  }
#endif
  separate_one_by_one(pixels, out, begin);
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
