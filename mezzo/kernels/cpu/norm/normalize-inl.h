// The arithmetic of batch normalization. All code that normalises, or reasons about normalised
// values, uses these instructions, so that the bits are the same. Included once per instruction
// set, like simd-inl.h.
#if defined(MEZZO_KERNELS_CPU_NORMALIZE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEZZO_KERNELS_CPU_NORMALIZE_INL_H_
#undef MEZZO_KERNELS_CPU_NORMALIZE_INL_H_
#else
#define MEZZO_KERNELS_CPU_NORMALIZE_INL_H_
#endif

#include "mezzo/kernels/cpu/simd/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {

// rstd = 1 / sqrt(var + eps) and scale = weight * rstd of `count` channels. They are NaN if the
// variance is not finite. The quotient, 0, would turn values that f32 cannot normalise into finite
// results, and hide the fault. For finite variances, the added difference is 0 and changes no bit.
inline void compute_scale(std::int64_t count, float eps, const float* weight, const float* var,
                          float* rstd, float* scale) {
  const auto one = hn::Set(F32(), 1.0F);
  for_row(count, [&](std::int64_t c, auto part) HWY_ATTR {
    const auto v = hn::Add(load(var + c, part), hn::Set(F32(), eps));
    const auto r = hn::Add(hn::Div(one, hn::Sqrt(v)), hn::Sub(v, v));
    store(r, rstd + c, part);
    store(hn::Mul(r, load(weight + c, part)), scale + c, part);
  });
}

// (x - mean) * scale + bias. Folding mean * scale into the bias would save the subtraction, but
// cancel in f32 what the subtraction removes exactly: a mean of 1000 deviations would cost 10 bits.
HWY_INLINE F32Vec normalize(F32Vec x, F32Vec mean, F32Vec scale, F32Vec bias) {
  return hn::MulAdd(hn::Sub(x, mean), scale, bias);
}

// A NaN is not <= 0 and stays.
HWY_INLINE F32Vec positive_part(F32Vec v) {
  const auto zero = hn::Zero(F32());
  return hn::IfThenElse(hn::Le(v, zero), zero, v);
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
