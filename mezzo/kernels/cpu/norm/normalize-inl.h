// The arithmetic of batch normalization, for all that normalise or look at what was normalised: the
// same instructions give the same bits. Included once per instruction set, like simd-inl.h.
#if defined(MEZZO_KERNELS_CPU_NORMALIZE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEZZO_KERNELS_CPU_NORMALIZE_INL_H_
#undef MEZZO_KERNELS_CPU_NORMALIZE_INL_H_
#else
#define MEZZO_KERNELS_CPU_NORMALIZE_INL_H_
#endif

#include "mezzo/kernels/cpu/simd/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {

// rstd = 1 / sqrt(var + eps) and scale = weight * rstd of `count` channels. They are NaN where the
// variance is not finite: 0, the quotient, would make a finite result of numbers that f32 cannot
// normalise, and nobody would see it. The difference is 0 otherwise, and changes no bit.
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

// (x - mean) * scale + bias. Folding mean * scale into the bias would save the subtraction and
// cancel in f32 what the subtraction removes exactly: a mean of 1000 deviations costs 10 bits.
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
