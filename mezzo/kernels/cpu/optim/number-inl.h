// A vector of f32 as the update rules compute with it (ops/update/rules/list-inl.h). Included once
// per instruction set, hence no ordinary include guard.
#if defined(MEZZO_KERNELS_CPU_OPTIM_NUMBER_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEZZO_KERNELS_CPU_OPTIM_NUMBER_INL_H_
#undef MEZZO_KERNELS_CPU_OPTIM_NUMBER_INL_H_
#else
#define MEZZO_KERNELS_CPU_OPTIM_NUMBER_INL_H_
#endif

#include "mezzo/kernels/cpu/simd/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {

struct Number {
  F32Vec v;

  HWY_INLINE Number() : v(hn::Zero(F32())) {}
  HWY_INLINE explicit Number(float value) : v(hn::Set(F32(), value)) {}
  HWY_INLINE explicit Number(F32Vec vector) : v(vector) {}

  friend HWY_INLINE Number operator+(Number a, Number b) { return Number(hn::Add(a.v, b.v)); }
  friend HWY_INLINE Number operator-(Number a, Number b) { return Number(hn::Sub(a.v, b.v)); }
  friend HWY_INLINE Number operator*(Number a, Number b) { return Number(hn::Mul(a.v, b.v)); }
  friend HWY_INLINE Number operator/(Number a, Number b) { return Number(hn::Div(a.v, b.v)); }
};

HWY_INLINE Number fma(Number a, Number b, Number c) { return Number(hn::MulAdd(a.v, b.v, c.v)); }
HWY_INLINE Number minus_product(Number v, Number a, Number b) {
  return Number(hn::NegMulAdd(a.v, b.v, v.v));
}
HWY_INLINE Number sqrt(Number v) { return Number(hn::Sqrt(v.v)); }
HWY_INLINE Number decayed(float decay, Number param, Number grad) {
  return decay != 0 ? fma(Number(decay), param, grad) : grad;
}
HWY_INLINE Number zero_below(float least, Number v) {
  return Number(hn::IfThenZeroElse(hn::Lt(hn::Abs(v.v), hn::Set(F32(), least)), v.v));
}
HWY_INLINE Number at_least_zero(Number v) {
  return Number(hn::IfThenZeroElse(hn::Lt(v.v, hn::Zero(F32())), v.v));
}
HWY_INLINE Number sign(Number v) {
  const auto one = hn::CopySign(hn::Set(F32(), 1), v.v);
  const auto is_not_zero = hn::Ne(v.v, hn::Zero(F32()));
  // A NaN stays one.
  return Number(hn::IfThenElse(hn::Eq(v.v, v.v), hn::IfThenElseZero(is_not_zero, one), v.v));
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
