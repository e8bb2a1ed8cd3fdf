// Vector loops shared by the CPU kernels. Included once per instruction set (Highway's
// foreach_target), hence no ordinary include guard.
//
// Every kernel computes in f32 whatever it stores: load() widens bf16 and f16 exactly, store()
// rounds once, by the rules of core/half.h. Accumulating in 16 bits would lose small terms after a
// few hundred additions.
#if defined(MEZZO_KERNELS_CPU_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEZZO_KERNELS_CPU_SIMD_INL_H_
#undef MEZZO_KERNELS_CPU_SIMD_INL_H_
#else
#define MEZZO_KERNELS_CPU_SIMD_INL_H_
#endif

#include <algorithm>
#include <cstring>

#include <hwy/highway.h>

#include "mezzo/core/half.h"
#include "mezzo/core/math.h"
#include "mezzo/core/parallel.h"
#include "mezzo/kernels/cpu/simd/isa.h"
#include "mezzo/kernels/cpu/simd/prefetch.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using kernels::kReadAhead;
using kernels::kWriteAhead;
using kernels::prefetch;

// The widest f32 vector of this instruction set; every type is processed in groups of its lanes.
using F32 = hn::ScalableTag<float>;
using F32Vec = hn::Vec<F32>;
using U32 = hn::RebindToUnsigned<F32>;
using U16 = hn::Rebind<std::uint16_t, F32>;
using F16 = hn::Rebind<hwy::float16_t, F32>;

// False for an instruction set of which no CPU runs the kernels whose support() asks for
// cpu_features().avx2: below AVX2, where that is built. Those of Winograd's method, which take
// longest to compile, have the bodies of their entry points within
// `if constexpr (kRunsAvx2Kernels)`, else kernels::fail_without_avx2().
inline constexpr bool kRunsAvx2Kernels =
    !HWY_ARCH_X86 || HWY_TARGET <= HWY_AVX2 || (HWY_TARGETS & HWY_AVX2) == 0;

inline constexpr std::int64_t kMaxLanes = hn::MaxLanes(F32());
HWY_INLINE std::int64_t lanes() { return static_cast<std::int64_t>(hn::Lanes(F32())); }

// load(p) is the next lanes() elements as f32.
HWY_INLINE F32Vec load(const float* p) { return hn::LoadU(F32(), p); }

HWY_INLINE F32Vec widen_bf16(hn::Vec<U16> bits) {
  return hn::BitCast(F32(), hn::ShiftLeft<16>(hn::PromoteTo(U32(), bits)));
}

HWY_INLINE F32Vec load(const BFloat16* p) {
  return widen_bf16(hn::LoadU(U16(), reinterpret_cast<const std::uint16_t*>(p)));
}

// On its narrowest targets, Highway's conversions to f16 round down, and SSE2's make infinity of
// NaN. There each value is converted by the rules of core/half.h. (Where Highway does not know
// SSE2, its name is 0 here, which is no target.)
#undef MEZZO_F16_ONE_BY_ONE
#define MEZZO_F16_ONE_BY_ONE \
  (HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_SSE2)

HWY_INLINE F32Vec load(const Float16* p) {
#if MEZZO_F16_ONE_BY_ONE
  alignas(16) float values[kMaxLanes];
  for (std::size_t i = 0; i < hn::Lanes(F32()); ++i) values[i] = static_cast<float>(p[i]);
  return hn::Load(F32(), values);
#else
  return hn::PromoteTo(F32(), hn::LoadU(F16(), reinterpret_cast<const hwy::float16_t*>(p)));
#endif
}

// Rounds to nearest, ties to even, by the rules of core/half.h.
HWY_INLINE hn::Vec<U16> round_to_bf16(F32Vec v) {
#if HWY_TARGET == HWY_AVX3
  // One instruction instead of eleven, with the same result for every bit pattern. Highway's target
  // does not include it, but the branch is predicted, and inline assembly needs no target flag. It
  // must be volatile: otherwise the compiler could hoist it before the branch for a constant, onto
  // CPUs that lack it.
  if (kernels::has_bf16_rounding) {
    __m256i bits;
    asm volatile("vcvtneps2bf16 %1, %0" : "=v"(bits) : "v"(v.raw));
    return hn::Vec<U16>{bits};
  }
#endif
  const U32 u32;
  const auto bits = hn::BitCast(u32, v);
  const auto magnitude = hn::And(bits, hn::Set(u32, 0x7fffffffU));
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(u32, 1));
  auto rounded = hn::ShiftRight<16>(hn::Add(hn::Add(bits, hn::Set(u32, 0x7fffU)), odd));
  // Subnormals become zero and NaN stays NaN, as core/half.h says.
  const auto upper = hn::ShiftRight<16>(bits);
  rounded = hn::IfThenElse(hn::Lt(magnitude, hn::Set(u32, 0x00800000U)),
                           hn::And(upper, hn::Set(u32, 0x8000U)), rounded);
  rounded = hn::IfThenElse(hn::Gt(magnitude, hn::Set(u32, 0x7f800000U)),
                           hn::Or(upper, hn::Set(u32, 0x40U)), rounded);
  return hn::TruncateTo(U16(), rounded);
}

// a * b + sum, rounded once where the target can; paired, each element being two bf16 numbers, both
// products are added: by the CPU's dot product for that, which is there wherever the caller says
// kPaired.
template <bool kPaired>
HWY_INLINE F32Vec multiply_add(F32Vec a, F32Vec b, F32Vec sum) {
#if HWY_TARGET == HWY_AVX3
  if constexpr (kPaired) {
    // Highway's target does not include it; see round_to_bf16().
    asm("vdpbf16ps %2, %1, %0" : "+v"(sum.raw) : "v"(a.raw), "v"(b.raw));
    return sum;
  }
#elif HWY_ARCH_ARM_A64
  if constexpr (kPaired) {
    asm(".arch_extension bf16\n\tbfdot %0.4s, %1.8h, %2.8h"
        : "+w"(sum.raw)
        : "w"(a.raw), "w"(b.raw));
    return sum;
  }
#endif
  return hn::MulAdd(a, b, sum);
}

// store(v, p) rounds lanes() f32 to nearest, ties to even.
HWY_INLINE void store(F32Vec v, float* p) { hn::StoreU(v, F32(), p); }

HWY_INLINE void store(F32Vec v, BFloat16* p) {
  hn::StoreU(round_to_bf16(v), U16(), reinterpret_cast<std::uint16_t*>(p));
}

HWY_INLINE void store(F32Vec v, Float16* p) {
#if MEZZO_F16_ONE_BY_ONE
  alignas(16) float values[kMaxLanes];
  hn::Store(v, F32(), values);
  for (std::size_t i = 0; i < hn::Lanes(F32()); ++i) p[i] = Float16(values[i]);
#else
  hn::StoreU(hn::DemoteTo(F16(), v), F16(), reinterpret_cast<hwy::float16_t*>(p));
#endif
}

// Tags: whether a loop prefetches what it reads and writes next.
struct Asks {};
struct AsksNot {};

template <class T>
HWY_INLINE F32Vec load(const T* p, Asks) {
  prefetch(p, kReadAhead);
  return load(p);
}
template <class T>
HWY_INLINE F32Vec load(const T* p, AsksNot) {
  return load(p);
}
template <class T>
HWY_INLINE void store(F32Vec v, T* p, Asks) {
  prefetch(p, kWriteAhead);
  store(v, p);
}
template <class T>
HWY_INLINE void store(F32Vec v, T* p, AsksNot) {
  store(v, p);
}

// Elements per thread from which on a loop prefetches. Fewer may fit in the second-level cache,
// where prefetching costs half as much time again, and what follows belongs to another thread.
inline constexpr std::int64_t kMany = std::int64_t{1} << 18;

// Calls body(i, asks) for the whole vectors of [begin, end) and returns where the remainder begins.
// `asks` is Asks or AsksNot. `all`: how many elements the whole loop visits, if this is a piece of
// it.
template <class Body>
HWY_INLINE std::int64_t for_whole_vectors(std::int64_t begin, std::int64_t end, const Body& body,
                                          std::int64_t all) {
  const std::int64_t step = lanes();
  std::int64_t i = begin;
  if (all >= kMany) {
    for (; i + step <= end; i += step) body(i, Asks{});
  } else {
    for (; i + step <= end; i += step) body(i, AsksNot{});
  }
  return i;
}
template <class Body>
HWY_INLINE std::int64_t for_whole_vectors(std::int64_t begin, std::int64_t end, const Body& body) {
  return for_whole_vectors(begin, end, body, end - begin);
}

// v as it would be read back after store(v, T*).
template <class T>
HWY_INLINE F32Vec as_stored(F32Vec v) {
  if constexpr (std::is_same_v<T, float>) return v;
  if constexpr (std::is_same_v<T, BFloat16>) return widen_bf16(round_to_bf16(v));
  alignas(64) T values[kMaxLanes];
  store(v, values);
  return load(values);
}

// The bytes of `count` elements, fewer than a vector holds. It is 0 where vectors have one lane:
// gcc cannot know that no rest exists there, and would warn of copies past the end.
template <class T>
constexpr std::size_t part_bytes(std::int64_t count) {
  return kMaxLanes == 1 ? 0 : static_cast<std::size_t>(count) * sizeof(T);
}

// load() and store() of the first `count` < lanes() elements; the others are read as 0 and not
// written. AVX-512 has masks for this; elsewhere a 16-bit mask would have to read past the end.
#if HWY_TARGET <= HWY_AVX3
HWY_INLINE F32Vec load_part(const float* p, std::int64_t count) {
  return hn::MaskedLoad(hn::FirstN(F32(), static_cast<std::size_t>(count)), F32(), p);
}
HWY_INLINE hn::Vec<U16> load_part_bits(const void* p, std::int64_t count) {
  return hn::MaskedLoad(hn::FirstN(U16(), static_cast<std::size_t>(count)), U16(),
                        static_cast<const std::uint16_t*>(p));
}
HWY_INLINE F32Vec load_part(const BFloat16* p, std::int64_t count) {
  return widen_bf16(load_part_bits(p, count));
}
HWY_INLINE F32Vec load_part(const Float16* p, std::int64_t count) {
  return hn::PromoteTo(F32(), hn::BitCast(F16(), load_part_bits(p, count)));
}

HWY_INLINE void store_part(F32Vec v, float* p, std::int64_t count) {
  hn::BlendedStore(v, hn::FirstN(F32(), static_cast<std::size_t>(count)), F32(), p);
}
HWY_INLINE void store_part_bits(hn::Vec<U16> bits, void* p, std::int64_t count) {
  hn::BlendedStore(bits, hn::FirstN(U16(), static_cast<std::size_t>(count)), U16(),
                   static_cast<std::uint16_t*>(p));
}
HWY_INLINE void store_part(F32Vec v, BFloat16* p, std::int64_t count) {
  store_part_bits(round_to_bf16(v), p, count);
}
HWY_INLINE void store_part(F32Vec v, Float16* p, std::int64_t count) {
  store_part_bits(hn::BitCast(U16(), hn::DemoteTo(F16(), v)), p, count);
}
#else
template <class T>
HWY_INLINE F32Vec load_part(const T* p, std::int64_t count) {
  T values[kMaxLanes] = {};
  std::memcpy(values, p, part_bytes<T>(count));
  return load(values);
}

template <class T>
HWY_INLINE void store_part(F32Vec v, T* p, std::int64_t count) {
  alignas(64) T values[kMaxLanes];
  store(v, values);
  std::memcpy(p, values, part_bytes<T>(count));
}
#endif

// Calls body(begin, end) in parallel with ranges that start at multiples of the vector length.
inline void for_vectors(std::int64_t n,
                        FunctionRef<void(std::int64_t begin, std::int64_t end)> body) {
  const std::int64_t groups = ceil_div(n, kMaxLanes);
  parallel_for(groups, kElementGrain / kMaxLanes, [&](std::int64_t begin, std::int64_t end) {
    body(begin * kMaxLanes, end * kMaxLanes < n ? end * kMaxLanes : n);
  });
}

// out[i] = f(in[i]); f maps a vector of f32 to a vector of f32.
template <class In, class Out, class Function>
void map(const In* in, Out* out, std::int64_t n, const Function& f) {
  for_vectors(n, [&](std::int64_t begin, std::int64_t end) HWY_ATTR {
    const std::int64_t i = for_whole_vectors(begin, end, [&](std::int64_t k, auto asks) HWY_ATTR {
      store(f(load(in + k, asks)), out + k, asks);
    });
    if (i < end) store_part(f(load_part(in + i, end - i)), out + i, end - i);
  });
}

// out[i] = f(a[i], b[i]).
template <class A, class B, class Out, class Function>
void map(const A* a, const B* b, Out* out, std::int64_t n, const Function& f) {
  for_vectors(n, [&](std::int64_t begin, std::int64_t end) HWY_ATTR {
    const std::int64_t i = for_whole_vectors(begin, end, [&](std::int64_t k, auto asks) HWY_ATTR {
      store(f(load(a + k, asks), load(b + k, asks)), out + k, asks);
    });
    if (i < end) {
      store_part(f(load_part(a + i, end - i), load_part(b + i, end - i)), out + i, end - i);
    }
  });
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
