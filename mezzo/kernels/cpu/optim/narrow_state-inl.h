// Reading state in bf16 and e4m3 as f32 and rounding it back, a piece at a time, by the rules of
// ops/update/narrow_state.h. Included once per instruction set, hence no ordinary include guard.
//
// Like 16-bit parameters (half_params-inl.h), a piece is widened into scratch that stays in the
// first-level cache, so that main memory sees every narrow number once in and once out.
#if defined(MEZZO_KERNELS_CPU_NARROW_STATE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEZZO_KERNELS_CPU_NARROW_STATE_INL_H_
#undef MEZZO_KERNELS_CPU_NARROW_STATE_INL_H_
#else
#define MEZZO_KERNELS_CPU_NARROW_STATE_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstring>

#include "mezzo/kernels/cpu/optim/half_params-inl.h"
#include "mezzo/kernels/cpu/simd/philox-inl.h"
#include "mezzo/kernels/cpu/simd/simd-inl.h"
#include "mezzo/ops/update/flat_kernels.h"
#include "mezzo/ops/update/narrow_state.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {

using U8 = hn::Rebind<std::uint8_t, F32>;

static_assert(kPiece % kStateBlock == 0 && kStateBlock % kMaxLanes == 0);

// A piece's state in f32, and what rounding it takes.
struct StateScratch {
  alignas(64) float slots[flat::kMostSlots][kPiece];
  alignas(64) std::uint32_t words[kPiece / 2 + kPhiloxWords];  // words are made in whole vectors
  alignas(64) std::uint8_t codes[kStateBlock];
};

// The numbers of e4m3 codes: core/float8.h.
HWY_INLINE F32Vec value_of_e4m3(hn::Vec<U32> codes) {
  const U32 u32;
  const F32 f32;
  const hn::RebindToSigned<F32> i32;
  const auto magnitude = hn::And(codes, hn::Set(u32, 0x7f));
  const auto normal =
      hn::BitCast(f32, hn::Add(hn::ShiftLeft<20>(magnitude), hn::Set(u32, 120U << 23)));
  const auto small =
      hn::Mul(hn::ConvertTo(f32, hn::BitCast(i32, magnitude)), hn::Set(f32, 0x1p-9F));
  const auto is_small = hn::RebindMask(f32, hn::Lt(magnitude, hn::Set(u32, 8)));
  const auto is_nan = hn::RebindMask(f32, hn::Eq(magnitude, hn::Set(u32, 0x7f)));
  const auto nan = hn::BitCast(f32, hn::Set(u32, 0x7fc00000U));
  const auto value = hn::IfThenElse(is_nan, nan, hn::IfThenElse(is_small, small, normal));
  const auto sign = hn::BitCast(f32, hn::ShiftLeft<24>(hn::And(codes, hn::Set(u32, 0x80))));
  return hn::Or(value, sign);
}

// The codes of numbers that e4m3 has, and of NaN for all that is larger.
HWY_INLINE hn::Vec<U32> e4m3_of(F32Vec values) {
  const U32 u32;
  const F32 f32;
  const hn::RebindToSigned<F32> i32;
  const auto bits = hn::BitCast(u32, values);
  const auto magnitude = hn::And(bits, hn::Set(u32, 0x7fffffffU));
  const auto normal = hn::Sub(hn::ShiftRight<20>(magnitude), hn::Set(u32, 120U << 3));
  const auto is_small = hn::Lt(magnitude, hn::Set(u32, 121U << 23));
  // Only of small numbers: those that are not would leave the range of integers.
  const auto small_values =
      hn::IfThenElseZero(hn::RebindMask(f32, is_small), hn::BitCast(f32, magnitude));
  const auto small = hn::BitCast(u32, hn::ConvertTo(i32, hn::Mul(small_values, hn::Set(f32, 512))));
  const auto finite = hn::IfThenElse(is_small, small, normal);
  const auto is_large = hn::Gt(magnitude, hn::Set(u32, 0x43e00000U));  // 448
  const auto code = hn::IfThenElse(is_large, hn::Set(u32, 0x7f), finite);
  return hn::Or(code, hn::And(hn::ShiftRight<24>(bits), hn::Set(u32, 0x80)));
}

// Random numbers in (0, 1) of 16 bits: (random + 1/2) * 2^-16, which is exact.
HWY_INLINE F32Vec random_unit(hn::Vec<U32> random) {
  const F32 f32;
  const hn::RebindToSigned<F32> i32;
  const auto number = hn::ConvertTo(f32, hn::BitCast(i32, random));
  return hn::Add(hn::Mul(number, hn::Set(f32, 0x1p-16F)), hn::Set(f32, 0x1p-17F));
}

// v, of at most 448, moved to one of its two neighbours in e4m3, away from zero with the
// probability that makes the mean v: random bits are added to the 20 bits that are cut off.
HWY_INLINE F32Vec dither_e4m3(F32Vec v, hn::Vec<U32> random) {
  const U32 u32;
  const F32 f32;
  const auto magnitude = hn::Min(hn::Abs(v), hn::Set(f32, 448));
  const auto noise = hn::Or(hn::ShiftLeft<4>(random), hn::Set(u32, 8));
  const auto sum = hn::Add(hn::BitCast(u32, magnitude), noise);
  const auto cut = hn::BitCast(f32, hn::And(sum, hn::Set(u32, 0xfff00000U)));
  const auto units = hn::Mul(magnitude, hn::Set(f32, 512));
  const auto down = hn::Floor(units);
  const auto is_up = hn::Lt(random_unit(random), hn::Sub(units, down));
  const auto up = hn::Add(down, hn::IfThenElseZero(is_up, hn::Set(f32, 1)));
  const auto small = hn::Mul(up, hn::Set(f32, 0x1p-9F));
  const auto is_small = hn::Lt(magnitude, hn::Set(f32, 0x1p-6F));
  return hn::CopySign(hn::IfThenElse(is_small, small, cut), v);
}

// The root of a mean of squares, 0 to 448, moved to one of its two neighbours with the probability
// that makes the mean of its square exact. No more than 0 becomes 0: see narrow_state.h.
HWY_INLINE F32Vec dither_root(F32Vec root, hn::Vec<U32> random, hn::Mask<F32> is_not_zero) {
  const U32 u32;
  const F32 f32;
  const auto v = hn::Min(root, hn::Set(f32, 448));
  const auto least = hn::Set(f32, 0x1p-9F);
  const auto bits = hn::And(hn::BitCast(u32, v), hn::Set(u32, 0xfff00000U));
  const auto next = hn::Add(bits, hn::Set(u32, 0x00100000U));
  const auto is_small = hn::Lt(v, hn::Set(f32, 0x1p-6F));
  const auto small = hn::Mul(hn::Floor(hn::Mul(v, hn::Set(f32, 512))), least);
  const auto low = hn::IfThenElse(is_small, small, hn::BitCast(f32, bits));
  const auto high = hn::IfThenElse(is_small, hn::Add(small, least), hn::BitCast(f32, next));
  const auto between = hn::Mul(hn::Sub(high, low), hn::Add(high, low));
  const auto above = hn::Mul(hn::Sub(v, low), hn::Add(v, low));
  const auto is_up = hn::Lt(hn::Mul(random_unit(random), between), above);
  const auto rounded = hn::IfThenElse(is_up, high, low);
  return hn::IfThenElse(hn::And(is_not_zero, hn::Lt(rounded, least)), least, rounded);
}

inline bool is_mean_of_squares(const flat::NarrowState& state, std::size_t slot) {
  return (state.squares >> slot & 1U) != 0;
}

// The numbers of a block of codes.
inline void widen_block(const std::uint8_t* codes, float scale, bool is_square, float* out) {
  const auto factor = hn::Set(F32(), scale);
  for (std::int64_t i = 0; i < kStateBlock; i += lanes()) {
    const auto value =
        hn::Mul(value_of_e4m3(hn::PromoteTo(U32(), hn::LoadU(U8(), codes + i))), factor);
    hn::StoreU(is_square ? hn::Mul(value, value) : value, F32(), out + i);
  }
}

// The largest finite magnitude of a block.
inline float largest_of(const float* values) {
  auto largest = hn::Zero(F32());
  for (std::int64_t i = 0; i < kStateBlock; i += lanes()) {
    const auto v = hn::LoadU(F32(), values + i);
    largest = hn::Max(largest, hn::IfThenElseZero(hn::IsFinite(v), hn::Abs(v)));
  }
  alignas(64) float each[kMaxLanes];
  hn::Store(largest, F32(), each);
  return *std::max_element(each, each + lanes());
}

// Rounds a block of values, whose scale it returns. A value that is not finite becomes NaN, and
// leaves the others as they are.
inline float round_block(const float* values, bool is_square, const std::uint16_t* random,
                         std::uint8_t* codes) {
  const F32 f32;
  const float largest = largest_of(values);
  const float extent = is_square ? std::sqrt(largest) : largest;
  // Below, the scale is no normal number. Roots of squares never are that small.
  const bool is_nothing = extent < 448 * flat::kLeastState;
  const auto factor = hn::Set(f32, is_nothing ? 0 : 448 / extent);
  const auto nan = hn::BitCast(f32, hn::Set(U32(), 0x7fc00000U));
  for (std::int64_t i = 0; i < kStateBlock; i += lanes()) {
    const auto v = hn::LoadU(f32, values + i);
    const auto bits = hn::PromoteTo(U32(), hn::LoadU(U16(), random + i));
    auto rounded = hn::Zero(f32);
    if (is_square) {
      const auto is_not_zero = hn::Gt(v, hn::Zero(f32));
      rounded = dither_root(hn::Mul(hn::Sqrt(v), factor), bits, is_not_zero);
    } else {
      rounded = dither_e4m3(hn::Mul(v, factor), bits);
    }
    rounded = hn::IfThenElse(hn::IsFinite(v), rounded, nan);
    hn::StoreU(hn::TruncateTo(U8(), e4m3_of(rounded)), U8(), codes + i);
  }
  return is_nothing ? 0 : extent / 448;
}

// Rounds a piece to bf16. Numbers that bf16 stores as zero are below its normal ones; a mean of
// squares that is not zero does not become one of them.
inline void round_state_to_bf16(const float* values, bool is_square, const std::uint16_t* random,
                                BFloat16* out, std::int64_t n) {
  for_piece(n, [=](std::int64_t i, auto get, auto put) HWY_ATTR {
    const F32 f32;
    const auto v = get(values);
    const auto bits = hn::PromoteTo(U32(), hn::LoadU(U16(), random + i));
    auto rounded = dither(v, bits, BFloat16());
    if (is_square) {
      const auto least = hn::Set(f32, flat::kLeastState);
      const auto is_lost = hn::And(hn::Gt(v, hn::Zero(f32)), hn::Lt(rounded, least));
      rounded = hn::IfThenElse(is_lost, least, rounded);
    }
    put(rounded, out);  // the value is one of bf16's: this rounding is exact
  });
}

// The random bits of elements [at, at + n) of a slot, at being a multiple of 8.
inline const std::uint16_t* random_of(const flat::NarrowState& state, std::uint64_t first_word,
                                      std::int64_t at, std::int64_t n, std::uint32_t* words) {
  std::uint64_t block = (state.random.offset + first_word) / 4 + static_cast<std::uint64_t>(at / 8);
  for (std::int64_t made = 0; 2 * made < n; made += 4 * lanes()) {
    philox_words(state.random, block, words + made);
    block += static_cast<std::uint64_t>(lanes());
  }
  return reinterpret_cast<const std::uint16_t*>(words);
}

// Widens elements [at, at + n) of all slots, at being a multiple of kStateBlock, and lets `piece`
// point to them.
inline void read_state(flat::UpdateBlock& piece, const flat::NarrowState& state, std::int64_t at,
                       std::int64_t n, StateScratch& scratch) {
  for (std::size_t k = 0; k < flat::kMostSlots && state.slots[k] != nullptr; ++k) {
    float* out = scratch.slots[k];
    piece.slots[k] = out;
    if (state.dtype == DType::kBf16) {
      widen(static_cast<const BFloat16*>(state.slots[k]) + at, out, n);
      continue;
    }
    const auto* codes = static_cast<const std::uint8_t*>(state.slots[k]) + at;
    const float* scales = state.scales[k] + at / kStateBlock;
    for (std::int64_t i = 0; i < n; i += kStateBlock) {
      std::memcpy(scratch.codes, codes + i, static_cast<std::size_t>(std::min(kStateBlock, n - i)));
      widen_block(scratch.codes, scales[i / kStateBlock], is_mean_of_squares(state, k), out + i);
    }
  }
}

// Rounds them back.
inline void write_state(const flat::UpdateBlock& block, std::int64_t at, std::int64_t n,
                        StateScratch& scratch) {
  const flat::NarrowState& state = block.state;
  std::uint64_t word = 0;
  for (std::size_t k = 0; k < flat::kMostSlots && state.slots[k] != nullptr; ++k) {
    float* values = scratch.slots[k];
    const std::uint16_t* random = random_of(state, word, at, n, scratch.words);
    word += static_cast<std::uint64_t>(state.words);
    if (state.dtype == DType::kBf16) {
      round_state_to_bf16(values, is_mean_of_squares(state, k), random,
                          static_cast<BFloat16*>(state.slots[k]) + at, n);
      continue;
    }
    std::fill(values + n, values + round_up(n, kStateBlock), 0.0F);
    auto* codes = static_cast<std::uint8_t*>(state.slots[k]) + at;
    float* scales = state.scales[k] + at / kStateBlock;
    for (std::int64_t i = 0; i < n; i += kStateBlock) {
      scales[i / kStateBlock] =
          round_block(values + i, is_mean_of_squares(state, k), random + i, scratch.codes);
      std::memcpy(codes + i, scratch.codes, static_cast<std::size_t>(std::min(kStateBlock, n - i)));
    }
  }
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
