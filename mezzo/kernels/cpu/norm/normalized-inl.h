// Numbers that are read as they are stored, or normalised on the way: for kernels that take the
// result of a batch normalization which nobody has computed (ops/fusion/pending_norm.h). Included
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

// How channel c of a pixel is read: as it is stored.
struct AsStored {
  template <class T, class Part>
  HWY_INLINE F32Vec values(const T* p, std::int64_t c, Part part) const {
    return load(p + c, part);
  }
  // The same as bf16 in the upper halves of the elements.
  template <class Part>
  HWY_INLINE hn::Vec<U32> upper_halves(const BFloat16* p, std::int64_t c, Part part) const {
    return hn::BitCast(U32(), load(p + c, part));
  }
  // What is read beside the images at that place, or null.
  template <class T>
  const T* beside(const T* /*p*/) const {
    return nullptr;
  }
};

// Or normalised, perhaps with a residual, and rounded as the result of batch normalization is.
template <bool kAdds>
struct Normalized {
  kernels::NormLines norm{};
  const void* x = nullptr;         // where the images begin
  const void* residual = nullptr;  // and their residuals, which lie as they do

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
  // Before it is rounded.
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

// kColumns vectors of every row from channel c on: what they are normalised by stays in registers.
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

// y gets `rows` rows of x normalised. Rows are as long as there are channels and follow each other.
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
