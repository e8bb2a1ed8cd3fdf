// exp, log, tanh, sigmoid and the normal distribution on vectors of f32, within about 2 units in
// the last place over the whole range; infinities, NaN, zeros and subnormals included. Included
// once per instruction set, like simd-inl.h.
//
// The polynomials are minimax fits (Remez exchange, relative error below 2^-25).
#if defined(MEZZO_KERNELS_CPU_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEZZO_KERNELS_CPU_MATH_INL_H_
#undef MEZZO_KERNELS_CPU_MATH_INL_H_
#else
#define MEZZO_KERNELS_CPU_MATH_INL_H_
#endif

#include <limits>

#include "mezzo/kernels/cpu/simd/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {

HWY_INLINE F32Vec number(float value) { return hn::Set(F32(), value); }

// Evaluates the polynomial with these coefficients; the constant term comes last.
HWY_INLINE F32Vec polynomial(F32Vec, F32Vec value) { return value; }
template <class... More>
HWY_INLINE F32Vec polynomial(F32Vec x, F32Vec value, float next, More... more) {
  return polynomial(x, hn::MulAdd(value, x, number(next)), more...);
}

// Limits x to [low, high]; a NaN stays.
HWY_INLINE F32Vec clamp(F32Vec x, float low, float high) {
  x = hn::IfThenElse(hn::Lt(x, number(low)), number(low), x);
  return hn::IfThenElse(hn::Gt(x, number(high)), number(high), x);
}

// x * 2^n in two steps, so that results may be subnormal or overflow; |n| <= 252.
HWY_INLINE F32Vec scale_by_power(F32Vec x, hn::Vec<hn::RebindToSigned<F32>> n) {
  const hn::RebindToSigned<F32> i32;
  const auto bias = hn::Set(i32, 127);
  const auto half = hn::ShiftRight<1>(n);
  const auto rest = hn::Sub(n, half);
  const auto first = hn::BitCast(F32(), hn::ShiftLeft<23>(hn::Add(half, bias)));
  const auto second = hn::BitCast(F32(), hn::ShiftLeft<23>(hn::Add(rest, bias)));
  return hn::Mul(hn::Mul(x, first), second);
}

// ln 2 in two parts: the first has 9 bits, so that its product with an exponent is exact.
inline constexpr float kLn2High = 0.693359375F;
inline constexpr float kLn2Low = -2.12194440e-4F;

// exp(x + small) for |small| < 0.1, as accurate as if the sum had not been rounded.
HWY_INLINE F32Vec exp_of_sum(F32Vec x, F32Vec small) {
  // Beyond these bounds the result is infinite, or rounds to zero.
  x = clamp(x, -104.5F, 89.0F);
  const auto n = hn::Round(hn::Mul(x, number(1.44269504F)));
  auto r = hn::NegMulAdd(n, number(kLn2High), x);
  r = hn::Add(hn::NegMulAdd(n, number(kLn2Low), r), small);
  const auto p = polynomial(r, number(0.0013814462974F), 0.00836878043121F, 0.0416683942795F,
                            0.166665201077F, 0.499999934123F);
  const auto e = hn::Add(hn::MulAdd(hn::Mul(r, r), p, r), number(1.0F));
  return scale_by_power(e, hn::ConvertTo(hn::RebindToSigned<F32>(), n));
}

HWY_INLINE F32Vec exp(F32Vec x) { return exp_of_sum(x, hn::Zero(F32())); }

// The natural logarithm: -inf at 0, NaN for negative x.
HWY_INLINE F32Vec log(F32Vec x) {
  const hn::RebindToSigned<F32> i32;
  const auto is_small = hn::Lt(x, number(0x1p-126F));
  const auto normal = hn::IfThenElse(is_small, hn::Mul(x, number(0x1p23F)), x);
  // x = m * 2^e with m in [sqrt(1/2), sqrt(2)).
  const auto bits = hn::BitCast(i32, normal);
  const auto exponent = hn::ShiftRight<23>(hn::Sub(bits, hn::Set(i32, 0x3f3504f3)));
  const auto m = hn::BitCast(F32(), hn::Sub(bits, hn::ShiftLeft<23>(exponent)));
  const auto e =
      hn::Sub(hn::ConvertTo(F32(), exponent), hn::IfThenElseZero(is_small, number(23.0F)));
  const auto z = hn::Sub(m, number(1.0F));
  const auto z2 = hn::Mul(z, z);
  const auto p =
      polynomial(z, number(-0.0763450905215F), 0.12761578776F, -0.131601789864F, 0.142017583647F,
                 -0.166233578431F, 0.200012268176F, -0.250008210115F, 0.333333317094F);
  auto y = hn::MulAdd(e, number(kLn2Low), hn::Mul(hn::Mul(z2, z), p));
  y = hn::NegMulAdd(z2, number(0.5F), y);
  auto result = hn::MulAdd(e, number(kLn2High), hn::Add(z, y));
  const auto infinity = number(std::numeric_limits<float>::infinity());
  result = hn::IfThenElse(hn::Eq(x, infinity), infinity, result);
  result = hn::IfThenElse(hn::Eq(x, hn::Zero(F32())), hn::Neg(infinity), result);
  const auto nan = number(std::numeric_limits<float>::quiet_NaN());
  return hn::IfThenElse(hn::Or(hn::Lt(x, hn::Zero(F32())), hn::IsNaN(x)), nan, result);
}

// The logistic function at x and at -x. The latter is 1 minus the former, but computed without the
// subtraction, which would lose bits.
struct SigmoidPair {
  F32Vec of_x;
  F32Vec of_minus_x;
};
HWY_INLINE SigmoidPair sigmoid_pair(F32Vec x) {
  // exp(-|x|) never overflows, and keeps small results for negative x accurate.
  const auto e = exp(hn::Neg(hn::Abs(x)));
  const auto large = hn::Div(number(1.0F), hn::Add(number(1.0F), e));
  const auto small = hn::Mul(e, large);
  const auto is_left = hn::Lt(x, hn::Zero(F32()));
  return {hn::IfThenElse(is_left, small, large), hn::IfThenElse(is_left, large, small)};
}

HWY_INLINE F32Vec sigmoid(F32Vec x) { return sigmoid_pair(x).of_x; }

HWY_INLINE F32Vec tanh(F32Vec x) {
  const auto x2 = hn::Mul(x, x);
  const auto p = polynomial(x2, number(-0.00566247789482F), 0.0206140053309F, -0.0537380486231F,
                            0.133315357823F, -0.333332923715F);
  const auto near = hn::MulAdd(hn::Mul(x, x2), p, x);
  const auto a = hn::Abs(x);
  const auto e = hn::Add(exp(hn::Add(a, a)), number(1.0F));
  const auto far = hn::Sub(number(1.0F), hn::Div(number(2.0F), e));
  return hn::CopySign(hn::IfThenElse(hn::Gt(a, number(0.625F)), far, near), x);
}

// The standard normal distribution at distance t from its mean, in factors: the density at t is
// exponential * kDensity, and the integral of the tail beyond t is exponential * ratio. The factors
// are kept apart: the tail alone may be subnormal, and so inexact, where its product with t is not.
struct NormalTail {
  F32Vec t;  // |x|, at most 15: everything beyond rounds to the same
  F32Vec exponential;
  F32Vec ratio;
  static constexpr float kDensity = 0.398942280F;  // 1 / sqrt(2 pi)
};

HWY_INLINE NormalTail normal_tail(F32Vec x) {
  const auto t = hn::Abs(clamp(x, -15.0F, 15.0F));
  // exp(-t^2 / 2), with t^2 in two parts of which the first is exact. A single rounding of t^2 near
  // 100 would cost 30 units in the last place of the exponential.
  const U32 u32;
  const auto high = hn::BitCast(F32(), hn::And(hn::BitCast(u32, t), hn::Set(u32, 0xfffff000U)));
  const auto half = number(-0.5F);
  const auto low = hn::Mul(half, hn::Mul(hn::Sub(t, high), hn::Add(t, high)));
  const auto e = exp_of_sum(hn::Mul(half, hn::Mul(high, high)), low);
  // The ratio is smooth in (t - 4) / (t + 4).
  const auto q = hn::Div(hn::Sub(t, number(4.0F)), hn::Add(t, number(4.0F)));
  const auto p = polynomial(q, number(-6.42873241205e-5F), -0.000166145550195F, 0.000657703669606F,
                            0.000501426476034F, -0.00849810165433F, 0.0308657510959F,
                            -0.0717067065785F, 0.124379182033F, -0.170397742374F, 0.094410642397F);
  return {t, e, p};
}

// GELU: x times the integral of the normal density up to x. Its derivative follows.
HWY_INLINE F32Vec gelu(F32Vec x) {
  const NormalTail tail = normal_tail(x);
  const auto positive = hn::IfThenElseZero(hn::Gt(x, hn::Zero(F32())), x);
  return hn::Sub(positive, hn::Mul(tail.exponential, hn::Mul(tail.ratio, tail.t)));
}

HWY_INLINE F32Vec gelu_derivative(F32Vec x) {
  const NormalTail tail = normal_tail(x);
  const auto inner = hn::NegMulAdd(tail.t, number(NormalTail::kDensity), tail.ratio);
  const auto left = hn::Mul(tail.exponential, inner);
  return hn::IfThenElse(hn::Gt(x, hn::Zero(F32())), hn::Sub(number(1.0F), left), left);
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
