// log(1 + y), erf, sin and cos on vectors of f32. Included once per instruction set, like
// simd-inl.h.
#if defined(MEZZO_KERNELS_CPU_FUNCTIONS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEZZO_KERNELS_CPU_FUNCTIONS_INL_H_
#undef MEZZO_KERNELS_CPU_FUNCTIONS_INL_H_
#else
#define MEZZO_KERNELS_CPU_FUNCTIONS_INL_H_
#endif

#include <cmath>

#include "mezzo/kernels/cpu/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {

// log(1 + y), -inf at -1 and NaN below; within 4 units in the last place. The quotient restores the
// digits of y that 1 + y has lost: Kahan's log1p, in Hewlett-Packard's "HP-15C advanced functions
// handbook", 1982.
HWY_INLINE F32Vec log_of_one_plus(F32Vec y) {
  const auto one = number(1.0F);
  const auto sum = hn::Add(one, y);
  const auto part = hn::Sub(sum, one);
  const auto exact = hn::Mul(log(sum), hn::Div(y, part));
  // Where 1 + y is 1, the result is y; the quotient of infinities would be NaN.
  const auto infinity = number(std::numeric_limits<float>::infinity());
  return hn::IfThenElse(hn::Or(hn::Eq(part, number(0.0F)), hn::Eq(part, infinity)), y, exact);
}

// The error function, within 4 units in the last place: its Taylor series up to 1, and from the
// tail of the normal distribution beyond.
HWY_INLINE F32Vec erf(F32Vec x) {
  constexpr float kRoot2 = 1.41421356F;
  const auto a = hn::Abs(x);
  const NormalTail tail = normal_tail(hn::Mul(a, number(kRoot2)));
  const auto both_tails = hn::Mul(number(2.0F), hn::Mul(tail.exponential, tail.ratio));
  const auto far = hn::Sub(number(1.0F), both_tails);
  const auto p =
      polynomial(hn::Mul(x, x), number(1.4807192816e-8F), -1.6365844691e-7F, 1.6462114366e-6F,
                 -1.4925650358e-5F, 1.2055332982e-4F, -8.5483270234e-4F, 5.2239776254e-3F,
                 -2.6866170645e-2F, 1.1283791671e-1F, -3.7612638903e-1F, 1.1283791671F);
  const auto near = hn::Mul(x, p);
  // NaN is not greater than 1, and stays.
  return hn::IfThenElse(hn::Gt(a, number(1.0F)), hn::CopySign(far, x), near);
}

// sin(x + quarters * pi / 2) for |x| up to 6000, within 2^-23. The quarter turns are subtracted in
// three parts, whose first two have 8 and 11 bits: their products with up to 4096 quarters are
// exact. The polynomials are minimax fits on [-pi/4, pi/4] by Moshier, "Cephes mathematical
// library", 1989.
HWY_INLINE F32Vec sine_of_small(F32Vec x, int quarters) {
  const hn::RebindToSigned<F32> i32;
  const auto n = hn::Round(hn::Mul(x, number(0.636619772F)));
  auto r = hn::NegMulAdd(n, number(0x1.92p+0F), x);
  r = hn::NegMulAdd(n, number(0x1.fb4p-12F), r);
  r = hn::NegMulAdd(n, number(0x1.4442d2p-24F), r);
  const auto turns = hn::Add(hn::ConvertTo(i32, n), hn::Set(i32, quarters));
  const auto z = hn::Mul(r, r);
  const auto s = polynomial(z, number(-1.9515295891e-4F), 8.3321608736e-3F, -1.6666654611e-1F);
  const auto sine = hn::MulAdd(hn::Mul(r, z), s, r);
  const auto c =
      polynomial(z, number(2.443315711809948e-5F), -1.388731625493765e-3F, 4.166664568298827e-2F);
  const auto cosine = hn::MulAdd(hn::Mul(z, z), c, hn::NegMulAdd(number(0.5F), z, number(1.0F)));
  const auto is_odd = hn::Ne(hn::And(turns, hn::Set(i32, 1)), hn::Zero(i32));
  const auto size = hn::IfThenElse(hn::RebindMask(F32(), is_odd), cosine, sine);
  const auto sign = hn::ShiftLeft<30>(hn::And(turns, hn::Set(i32, 2)));
  return hn::Xor(size, hn::BitCast(F32(), sign));
}

// The same for all x. Elements beyond 6000 are left to the C library, each for itself: the bits of
// an element do not depend on its neighbours.
HWY_INLINE F32Vec sine_of(F32Vec x, int quarters) {
  constexpr float kMost = 6000.0F;
  const auto is_small = hn::Le(hn::Abs(x), number(kMost));
  const auto sines = sine_of_small(hn::IfThenElseZero(is_small, x), quarters);
  if (hn::AllTrue(F32(), is_small)) return sines;
  alignas(64) float angles[kMaxLanes];
  alignas(64) float values[kMaxLanes];
  hn::Store(x, F32(), angles);
  hn::Store(sines, F32(), values);
  for (std::int64_t i = 0; i < lanes(); ++i) {
    if (std::abs(angles[i]) <= kMost) continue;
    values[i] = quarters == 0 ? std::sin(angles[i]) : std::cos(angles[i]);
  }
  return hn::Load(F32(), values);
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
