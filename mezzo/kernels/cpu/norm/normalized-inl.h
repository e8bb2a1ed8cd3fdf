// Readers of a pixel's values, as stored or normalised on the way. They are for kernels that take a
// batch normalization's result that has not been computed (ops/fusion/pending_norm.h). Included
// once per instruction set, like simd-inl.h.
#if defined(MEZZO_KERNELS_CPU_NORMALIZED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEZZO_KERNELS_CPU_NORMALIZED_INL_H_
#undef MEZZO_KERNELS_CPU_NORMALIZED_INL_H_
#else
#define MEZZO_KERNELS_CPU_NORMALIZED_INL_H_
#endif

#include "mezzo/kernels/cpu/norm/norm_arrays.h"
#include "mezzo/kernels/cpu/norm/normalize-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {

// Reads channel c of a pixel as it is stored.
struct AsStored {
  template <class T, class Part>
  HWY_INLINE F32Vec values(const T* p, std::int64_t c, Part part) const {
    return load(p + c, part);
  }
  // The values as bf16, in the upper halves of 32-bit elements.
  template <class Part>
  HWY_INLINE hn::Vec<U32> upper_halves(const BFloat16* p, std::int64_t c, Part part) const {
    return hn::BitCast(U32(), load(p + c, part));
  }
  // What is read beside the images at that place, for prefetching; null here.
  template <class T>
  const T* beside(const T* /*p*/) const {
    return nullptr;
  }
};

// Reads channel c normalised, with a residual if kAdds, and rounded as batch normalization rounds.
template <bool kAdds>
struct Normalized {
  kernels::NormLines norm{};
  const void* x = nullptr;         // start of the images
  const void* residual = nullptr;  // start of the residuals, laid out as the images

  template <class T, class Part>
  HWY_INLINE F32Vec values(const T* p, std::int64_t c, Part part) const {
    return as_stored<T>(normalized(p, c, part));
  }
  template <class Part>
  HWY_INLINE hn::Vec<U32> upper_halves(const BFloat16* p, std::int64_t c, Part part) const {
    return hn::ShiftLeft<16>(hn::PromoteTo(U32(), round_to_bf16(normalized(p, c, part))));
  }
  template <class T>
  const T* beside(const T* p) const {
    return kAdds ? static_cast<const T*>(residual) + (p - static_cast<const T*>(x)) : nullptr;
  }
  // The value before rounding.
  template <class T, class Part>
  HWY_INLINE F32Vec normalized(const T* p, std::int64_t c, Part part) const {
    auto v = normalize(load(p + c, part), load(norm.mean + c), load(norm.scale + c),
                       load(norm.bias + c));
    if constexpr (kAdds) {
      v = hn::Add(v, load(beside(p) + c, part));
      return positive_part(v);
    }
    return norm.relu ? positive_part(v) : v;
  }
};

// Normalises kColumns vectors of every row, from channel c on; their parameters stay in registers.
template <std::int64_t kColumns, class T>
HWY_INLINE void normalize_columns(const kernels::NormLines& norm, const T* x, std::int64_t rows,
                                  std::int64_t channels, std::int64_t c, T* y) {
  F32Vec mean[kColumns], scale[kColumns], bias[kColumns];
  for (std::int64_t v = 0; v < kColumns; ++v) {
    mean[v] = load(norm.mean + c + v * lanes());
    scale[v] = load(norm.scale + c + v * lanes());
    bias[v] = load(norm.bias + c + v * lanes());
  }
  const auto run = [&](const auto& finish) HWY_ATTR {
    for (std::int64_t r = 0; r < rows; ++r) {
      const T* const from = x + r * channels + c;
      T* const to = y + r * channels + c;
      for (std::int64_t v = 0; v < kColumns; ++v) {
        store(finish(normalize(load(from + v * lanes()), mean[v], scale[v], bias[v])),
              to + v * lanes());
      }
    }
  };
  if (norm.relu) {
    run([](F32Vec v) HWY_ATTR { return positive_part(v); });
  } else {
    run([](F32Vec v) HWY_ATTR { return v; });
  }
}

// Writes `rows` rows of x, normalised, to y. Rows have one element per channel and are contiguous.
template <class T>
void normalize_rows(const kernels::NormLines& norm, const T* x, std::int64_t rows,
                    std::int64_t channels, T* y) {
  constexpr std::int64_t kColumns = 4;
  std::int64_t c = 0;
  for (; c + kColumns * lanes() <= channels; c += kColumns * lanes()) {
    normalize_columns<kColumns>(norm, x, rows, channels, c, y);
  }
  for (; c + lanes() <= channels; c += lanes()) {
    normalize_columns<1>(norm, x, rows, channels, c, y);
  }
  if (c == channels) return;
  const Normalized<false> read{norm};
  const Part rest{channels - c};
  for (std::int64_t r = 0; r < rows; ++r) {
    store(read.normalized(x + r * channels, c, rest), y + r * channels + c, rest);
  }
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
