// Reads 16-bit parameters as f32 and rounds them back, a piece at a time. Included once per
// instruction set, hence no ordinary include guard.
//
// A piece is widened into a few kilobytes of scratch that stay in the first-level cache. It is
// updated by the rule for f32 parameters, and rounded back. Every 16-bit value is read from main
// memory and written to it once, as if there were a kernel for each dtype, rounding and optimizer.
// But there is one rule only, and so a master copy gets the bits of an f32 parameter. f32 scratch
// for a whole parameter would go to memory and back: three times the traffic.
#if defined(MEZZO_KERNELS_CPU_HALF_PARAMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEZZO_KERNELS_CPU_HALF_PARAMS_INL_H_
#undef MEZZO_KERNELS_CPU_HALF_PARAMS_INL_H_
#else
#define MEZZO_KERNELS_CPU_HALF_PARAMS_INL_H_
#endif

#include "mezzo/kernels/cpu/simd/philox-inl.h"
#include "mezzo/kernels/cpu/simd/simd-inl.h"
#include "mezzo/ops/update/flat_kernels.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {

inline constexpr std::int64_t kPiece = 1024;

// Scratch memory for one piece.
struct PieceRoom {
  alignas(64) float param[kPiece];
  alignas(64) float grad[kPiece];
  // Slightly more words than elements need: a piece may begin inside a block of four words, and
  // words are made in whole vectors. And the last part of a piece reads a whole vector of 16-bit
  // elements.
  alignas(64) std::uint32_t words[kPiece / 2 + 4 + 2 * kPhiloxWords];
};

template <class Function>
HWY_INLINE void visit_half(DType dtype, const Function& function) {
  visit_lower_dtype(dtype, [&]<class T>() { function(T()); });
}

// Calls body(i, load, store) for the vectors of [0, n). load(p) reads from p + i and store(v, p)
// writes there: a whole vector, or the remainder.
template <class Body>
HWY_INLINE void for_piece(std::int64_t n, const Body& body) {
  const std::int64_t step = lanes();
  std::int64_t i = 0;
  for (; i + step <= n; i += step) {
    body(
        i, [=](const auto* p) HWY_ATTR { return load(p + i); },
        [=](F32Vec v, auto* p) HWY_ATTR { store(v, p + i); });
  }
  // A single lane leaves no remainder, which the compiler cannot know.
  if constexpr (kMaxLanes > 1) {
    if (i == n) return;
    const std::int64_t count = n - i;
    body(
        i, [=](const auto* p) HWY_ATTR { return load_part(p + i, count); },
        [=](F32Vec v, auto* p) HWY_ATTR { store_part(v, p + i, count); });
  }
}

template <class T>
void widen(const T* in, float* out, std::int64_t n) {
  for_piece(n, [=](std::int64_t, auto get, auto put) HWY_ATTR { put(get(in), out); });
}

// out = parameter + the remainder that earlier roundings cut off.
template <class T>
void widen_sum(const T* in, const T* rest, float* out, std::int64_t n) {
  for_piece(
      n, [=](std::int64_t, auto get, auto put) HWY_ATTR { put(hn::Add(get(in), get(rest)), out); });
}

template <class T>
void round_nearest(const float* in, T* out, std::int64_t n) {
  for_piece(n, [=](std::int64_t, auto get, auto put) HWY_ATTR { put(get(in), out); });
}

// The remainder that rounding cuts off is exact in f32; the next 8 or 11 bits of it are kept.
template <class T>
void round_kahan(const float* in, T* out, T* rest, std::int64_t n) {
  for_piece(n, [=](std::int64_t, auto get, auto put) HWY_ATTR {
    const auto sum = get(in);
    put(sum, out);
    const auto cut = hn::Sub(sum, get(out));
    // The remainder is 0 if the sum is not finite, or its rounded value is not.
    put(hn::IfThenElseZero(hn::IsFinite(cut), cut), rest);
  });
}

// Stochastic rounding: moves v to one of its two neighbours in bf16, away from zero with the
// probability that makes the mean v. The 16 bits of `random` are added to the 16 bits that are cut
// off. Infinities and NaN stay.
HWY_INLINE F32Vec dither(F32Vec v, hn::Vec<U32> random, BFloat16 /*to*/) {
  const U32 u32;
  const auto sum = hn::Add(hn::BitCast(u32, v), random);
  const auto cut = hn::BitCast(F32(), hn::And(sum, hn::Set(u32, 0xffff0000U)));
  return hn::IfThenElse(hn::IsFinite(v), cut, v);
}

// Stochastic rounding to f16. It cuts off 13 bits, and below 2^-14 all that lies below 2^-24; there
// the probability is rounded up to a multiple of 2^-16.
HWY_INLINE F32Vec dither(F32Vec v, hn::Vec<U32> random, Float16 /*to*/) {
  const U32 u32;
  const F32 f32;
  const hn::RebindToSigned<F32> i32;
  const auto sum = hn::Add(hn::BitCast(u32, v), hn::ShiftRight<3>(random));
  const auto cut = hn::BitCast(f32, hn::And(sum, hn::Set(u32, 0xffffe000U)));
  const auto units = hn::Mul(hn::Abs(v), hn::Set(f32, 0x1p24F));
  const auto down = hn::Floor(units);
  const auto unit = hn::Mul(hn::ConvertTo(f32, hn::BitCast(i32, random)), hn::Set(f32, 0x1p-16F));
  const auto one = hn::IfThenElseZero(hn::Lt(unit, hn::Sub(units, down)), hn::Set(f32, 1));
  const auto small = hn::CopySign(hn::Mul(hn::Add(down, one), hn::Set(f32, 0x1p-24F)), v);
  const auto finite = hn::IfThenElse(hn::Lt(hn::Abs(v), hn::Set(f32, 0x1p-14F)), small, cut);
  return hn::IfThenElse(hn::IsFinite(v), finite, v);
}

// Rounds element i by 16-bit number i of the stream, counted from `start`. Neither dtype cuts off
// more than 16 bits, and making random words is what costs time here.
template <class T>
void round_stochastic(const float* in, T* out, std::int64_t n, RandomPosition stream,
                      std::uint64_t start, std::uint32_t* words) {
  const std::uint64_t first = 2 * stream.offset + start;
  const auto skip = static_cast<std::int64_t>(first % 8);
  std::uint64_t block = first / 8;
  for (std::int64_t made = 0; 2 * made < skip + n; made += 4 * lanes()) {
    philox_words(stream, block, words + made);
    block += static_cast<std::uint64_t>(lanes());
  }
  const auto* halves = reinterpret_cast<const std::uint16_t*>(words) + skip;
  for_piece(n, [=](std::int64_t i, auto get, auto put) HWY_ATTR {
    const auto random = hn::PromoteTo(U32(), hn::LoadU(U16(), halves + i));
    put(dither(get(in), random, T()), out);  // the value is one of T's, so this rounding is exact
  });
}

// Reads elements [at, at + n) for the rule, into scratch or from the master copy.
template <class Block>
void read_piece(Block& piece, const Block& block, std::int64_t at, std::int64_t n,
                PieceRoom& room) {
  const flat::HalfBlock& half = block.half;
  visit_half(half.dtype, [&]<class T>(T) HWY_ATTR {
    const T* param = static_cast<const T*>(half.param) + at;
    if (half.rule == ParamUpdate::kMaster) {
      piece.param = block.param + at;
    } else {
      piece.param = room.param;
      if (half.rule == ParamUpdate::kKahan) {
        widen_sum(param, static_cast<const T*>(half.compensation) + at, room.param, n);
      } else {
        widen(param, room.param, n);
      }
    }
    if (half.grad_dtype == DType::kF32) {
      piece.grad = static_cast<const float*>(half.grad) + at;
    } else {
      widen(static_cast<const T*>(half.grad) + at, room.grad, n);
      piece.grad = room.grad;
    }
  });
}

inline void write_piece(const flat::HalfBlock& half, std::int64_t at, std::int64_t n,
                        const float* values, PieceRoom& room) {
  visit_half(half.dtype, [&]<class T>(T) HWY_ATTR {
    T* param = static_cast<T*>(half.param) + at;
    if (half.rule == ParamUpdate::kKahan) {
      round_kahan(values, param, static_cast<T*>(half.compensation) + at, n);
    } else if (half.rule == ParamUpdate::kStochastic) {
      round_stochastic(values, param, n, half.random, static_cast<std::uint64_t>(at), room.words);
    } else {
      round_nearest(values, param, n);
    }
  });
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
