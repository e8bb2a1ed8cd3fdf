// Vectors of the floating types of eight bits: f32 in registers, e4m3 or e5m2 in memory, with the
// bits of core/float8.h for every number, infinity and NaN. Included once per instruction set, like
// simd-inl.h.
//
// Only casts and products with scales include this header. Every other kernel refuses the two
// types, and would only grow by instantiations for them.
//
//   load(p)                        F32Vec of the next lanes() elements, exact
//   load_part(p, count)            of the first `count` < lanes(); the others are 0
//   store<kSaturates>(v, p)        rounds to nearest, ties to even
//   store_part<kSaturates>(v, p, count)
//   store(v, p), store_part(v, p, count)   without saturation, as those of simd-inl.h
//   load(p, asks), store<kSaturates>(v, p, asks)   for the loops of for_whole_vectors()
//
// p points to Float8E4M3 or Float8E5M2. With kSaturates, a finite number outside the range becomes
// the largest number of its sign, as T::saturated() says; without, NaN in e4m3 and infinity in
// e5m2. A scaled cast multiplies first: store<true>(hn::Mul(load(x + i), scale), out + i).
#if defined(MEZZO_KERNELS_CPU_FLOAT8_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEZZO_KERNELS_CPU_FLOAT8_INL_H_
#undef MEZZO_KERNELS_CPU_FLOAT8_INL_H_
#else
#define MEZZO_KERNELS_CPU_FLOAT8_INL_H_
#endif

#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "mezzo/core/float8.h"
#include "mezzo/kernels/cpu/simd/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {

using U8 = hn::Rebind<std::uint8_t, F32>;
using I32 = hn::RebindToSigned<F32>;

template <class T>
concept EightBitFloat = std::is_same_v<T, Float8E4M3> || std::is_same_v<T, Float8E5M2>;

// f32 patterns that the conversions below add and compare, as signed integers: unsigned comparisons
// cost three instructions where AVX-512 is missing, and no pattern here has its sign bit set.
template <EightBitFloat T>
struct Float8Patterns {
  using Format = typename T::Format;
  static constexpr int kFraction = Format::kFraction;
  static constexpr int kDropped = 23 - kFraction;  // bits of an f32 fraction that are rounded away
  static constexpr bool kHasInfinity = Format::kInfinity != 0x7f;
  static constexpr std::int32_t kF32Infinity = 0x7f800000;
  // What the code of a normal number, moved to f32's exponent and fraction, lacks.
  static constexpr std::int32_t kRebias = (127 - Format::kBias) << 23;
  // 2^(1 - kBias), the smallest normal number.
  static constexpr std::int32_t kFirstNormal = (128 - Format::kBias) << 23;
  // The smallest subnormal number.
  static constexpr std::int32_t kStep = (128 - Format::kBias - kFraction) << 23;
  // One unit in the last place of this power of two is the smallest subnormal number.
  static constexpr std::int32_t kAlign = (128 - Format::kBias + kDropped) << 23;
};

// The f32 numbers of lanes() codes.
template <EightBitFloat T>
HWY_INLINE F32Vec widen_float8(hn::Vec<U8> codes) {
  using Patterns = Float8Patterns<T>;
  const I32 i32;
  const auto bits = hn::PromoteTo(U32(), codes);
  const auto sign = hn::ShiftLeft<24>(hn::And(bits, hn::Set(U32(), 0x80U)));
  const auto code = hn::BitCast(i32, hn::And(bits, hn::Set(U32(), 0x7fU)));
  const auto normal =
      hn::Add(hn::ShiftLeft<Patterns::kDropped>(code), hn::Set(i32, Patterns::kRebias));
  const auto subnormal =
      hn::Mul(hn::ConvertTo(F32(), code), hn::Set(F32(), std::bit_cast<float>(Patterns::kStep)));
  auto magnitude = hn::IfThenElse(hn::Lt(code, hn::Set(i32, 1 << Patterns::kFraction)),
                                  hn::BitCast(i32, subnormal), normal);
  if constexpr (Patterns::kHasInfinity) {
    magnitude = hn::IfThenElse(hn::Eq(code, hn::Set(i32, Patterns::Format::kInfinity)),
                               hn::Set(i32, Patterns::kF32Infinity), magnitude);
  }
  constexpr std::int32_t kLastNumber = Patterns::kHasInfinity
                                           ? std::int32_t{Patterns::Format::kInfinity}
                                           : std::int32_t{Patterns::Format::kLargest};
  magnitude =
      hn::IfThenElse(hn::Gt(code, hn::Set(i32, kLastNumber)), hn::Set(i32, 0x7fc00000), magnitude);
  return hn::BitCast(F32(), hn::Or(hn::BitCast(U32(), magnitude), sign));
}

// The codes of lanes() f32 numbers.
template <EightBitFloat T, bool kSaturates>
HWY_INLINE hn::Vec<U8> narrow_float8(F32Vec v) {
  using Patterns = Float8Patterns<T>;
  using Format = typename T::Format;
  constexpr int kDropped = Patterns::kDropped;
  const U32 u32;
  const I32 i32;
  const auto bits = hn::BitCast(u32, v);
  const auto unsigned_bits = hn::And(bits, hn::Set(u32, 0x7fffffffU));
  const auto magnitude = hn::BitCast(i32, unsigned_bits);
  // Normal numbers. Those out of range, infinity and NaN get codes above kInfinity.
  const auto odd = hn::And(hn::ShiftRight<kDropped>(bits), hn::Set(u32, 1U));
  const auto raised =
      hn::Add(hn::Add(unsigned_bits, odd),
              hn::Set(u32, (1U << (kDropped - 1)) - 1U - std::uint32_t{Patterns::kRebias}));
  const auto normal = hn::BitCast(i32, hn::ShiftRight<kDropped>(raised));
  // Subnormal numbers: the addition rounds, see core/float8.h.
  const auto aligned = hn::Add(hn::BitCast(F32(), unsigned_bits),
                               hn::Set(F32(), std::bit_cast<float>(Patterns::kAlign)));
  const auto subnormal = hn::Sub(hn::BitCast(i32, aligned), hn::Set(i32, Patterns::kAlign));
  auto code =
      hn::IfThenElse(hn::Lt(magnitude, hn::Set(i32, Patterns::kFirstNormal)), subnormal, normal);
  const auto infinity = hn::Set(i32, Format::kInfinity);
  if constexpr (kSaturates) {
    const auto is_finite = hn::Lt(magnitude, hn::Set(i32, Patterns::kF32Infinity));
    code = hn::Min(code, hn::IfThenElse(is_finite, hn::Set(i32, Format::kLargest), infinity));
  } else {
    code = hn::Min(code, infinity);
  }
  if constexpr (Patterns::kHasInfinity) {
    code = hn::IfThenElse(hn::Gt(magnitude, hn::Set(i32, Patterns::kF32Infinity)),
                          hn::Set(i32, 0x7f), code);
  }
  const auto sign = hn::And(hn::ShiftRight<24>(bits), hn::Set(u32, 0x80U));
  return hn::TruncateTo(U8(), hn::Or(hn::BitCast(u32, code), sign));
}

template <EightBitFloat T>
HWY_INLINE F32Vec load(const T* p) {
  return widen_float8<T>(hn::LoadU(U8(), reinterpret_cast<const std::uint8_t*>(p)));
}

template <bool kSaturates, EightBitFloat T>
HWY_INLINE void store(F32Vec v, T* p) {
  hn::StoreU(narrow_float8<T, kSaturates>(v), U8(), reinterpret_cast<std::uint8_t*>(p));
}
template <EightBitFloat T>
HWY_INLINE void store(F32Vec v, T* p) {
  store<false>(v, p);
}

template <EightBitFloat T>
HWY_INLINE F32Vec load(const T* p, Asks) {
  prefetch(p, kReadAhead);
  return load(p);
}
template <EightBitFloat T>
HWY_INLINE F32Vec load(const T* p, AsksNot) {
  return load(p);
}
template <bool kSaturates, EightBitFloat T>
HWY_INLINE void store(F32Vec v, T* p, Asks) {
  prefetch(p, kWriteAhead);
  store<kSaturates>(v, p);
}
template <bool kSaturates, EightBitFloat T>
HWY_INLINE void store(F32Vec v, T* p, AsksNot) {
  store<kSaturates>(v, p);
}
template <EightBitFloat T>
HWY_INLINE void store(F32Vec v, T* p, Asks asks) {
  store<false>(v, p, asks);
}
template <EightBitFloat T>
HWY_INLINE void store(F32Vec v, T* p, AsksNot asks) {
  store<false>(v, p, asks);
}

template <EightBitFloat T>
HWY_INLINE F32Vec load_part(const T* p, std::int64_t count) {
#if HWY_TARGET <= HWY_AVX3
  return widen_float8<T>(hn::MaskedLoad(hn::FirstN(U8(), static_cast<std::size_t>(count)), U8(),
                                        reinterpret_cast<const std::uint8_t*>(p)));
#else
  T values[kMaxLanes] = {};
  std::memcpy(values, p, part_bytes<T>(count));
  return load(values);
#endif
}

template <bool kSaturates, EightBitFloat T>
HWY_INLINE void store_part(F32Vec v, T* p, std::int64_t count) {
#if HWY_TARGET <= HWY_AVX3
  hn::BlendedStore(narrow_float8<T, kSaturates>(v),
                   hn::FirstN(U8(), static_cast<std::size_t>(count)), U8(),
                   reinterpret_cast<std::uint8_t*>(p));
#else
  T values[kMaxLanes];
  store<kSaturates>(v, values);
  std::memcpy(p, values, part_bytes<T>(count));
#endif
}
template <EightBitFloat T>
HWY_INLINE void store_part(F32Vec v, T* p, std::int64_t count) {
  store_part<false>(v, p, count);
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
