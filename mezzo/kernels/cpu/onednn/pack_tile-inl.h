// Packs square tiles of weights for oneDNN's kernels, rounded and transposed as needed. Included
// once per instruction set, hence no ordinary include guard.
#if defined(MEZZO_KERNELS_CPU_PACK_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEZZO_KERNELS_CPU_PACK_TILE_INL_H_
#undef MEZZO_KERNELS_CPU_PACK_TILE_INL_H_
#else
#define MEZZO_KERNELS_CPU_PACK_TILE_INL_H_
#endif

#include <array>

#include <hwy/cache_control.h>

#include "mezzo/kernels/cpu/onednn/blocked_weight.h"
#include "mezzo/kernels/cpu/simd/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {

using kernels::onednn::BlockedWeight;

// A tile has one column, an n, per lane of a vector, and as many rows: k's or pairs of k's.
inline constexpr std::int64_t kTile = kMaxLanes;

inline constexpr std::int64_t kLine = 16;  // f32 elements per cache line

// Where blocked_weight() finds something to pack: with has_vectors().
#undef MEZZO_PACKS
#define MEZZO_PACKS (HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2 || HWY_ARCH_ARM_A64)

#if MEZZO_PACKS

// Loads the next values, `step` apart if kApart.
template <bool kApart>
HWY_INLINE F32Vec load_apart(const float* from, std::int64_t step) {
  if constexpr (kApart) {
    const hn::RebindToSigned<F32> d;
    const auto places = hn::Mul(hn::Iota(d, 0), hn::Set(d, static_cast<std::int32_t>(step)));
    return hn::GatherIndex(F32(), from, places);
  } else {
    return load(from);
  }
}

// bf16 values of a and then of b, in 32-bit pairs.
HWY_INLINE hn::Vec<U32> paired(F32Vec a, F32Vec b) {
#if HWY_TARGET == HWY_AVX3
  if (kernels::has_bf16_rounding) {  // like round_to_bf16(), for two vectors
    __m512i bits;
    asm volatile("vcvtne2ps2bf16 %2, %1, %0" : "=v"(bits) : "v"(b.raw), "v"(a.raw));
    return hn::Vec<U32>{bits};
  }
#endif
  const hn::Repartition<std::uint16_t, F32> d;
  return hn::BitCast(U32(), hn::Combine(d, round_to_bf16(b), round_to_bf16(a)));
}

#if HWY_TARGET == HWY_AVX3
// Interleaves the 16-bit values of the two halves; those of the first half go to the lower halves
// of 32-bit elements.
HWY_INLINE hn::Vec<U32> turned(hn::Vec<U32> halves) {
  // Highway's lookups need lanes of at least 32 bits.
  alignas(64) static constexpr std::uint16_t kTurns[] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                                         21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                                         11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  return hn::Vec<U32>{_mm512_permutexvar_epi16(_mm512_load_si512(kTurns), halves.raw)};
}
#endif

// Interleaves a and b as bf16; the values of a go to the lower halves of 32-bit elements.
HWY_INLINE hn::Vec<U32> interleaved(F32Vec a, F32Vec b) {
#if HWY_TARGET == HWY_AVX3
  return turned(paired(a, b));
#else
  const U32 d;
  return hn::Or(hn::PromoteTo(d, round_to_bf16(a)),
                hn::ShiftLeft<16>(hn::PromoteTo(d, round_to_bf16(b))));
#endif
}

// Interleaves bf16 values at a and b.
HWY_INLINE hn::Vec<U32> interleaved_bits(const std::uint16_t* a, const std::uint16_t* b) {
  const hn::Rebind<std::uint16_t, U32> d;
#if HWY_TARGET == HWY_AVX3
  const hn::Repartition<std::uint16_t, U32> both;
  return turned(hn::BitCast(U32(), hn::Combine(both, hn::LoadU(d, b), hn::LoadU(d, a))));
#else
  return hn::Or(hn::PromoteTo(U32(), hn::LoadU(d, a)),
                hn::ShiftLeft<16>(hn::PromoteTo(U32(), hn::LoadU(d, b))));
#endif
}

// Where the rows of a tile begin in the blocks.
using Rows = std::array<std::int64_t, kTile>;

// Streaming stores past the caches need vectors as long as a cache line: otherwise two halves would
// have to meet in a write buffer.
inline constexpr bool kCanStream = kMaxLanes == kLine;

template <bool kStreams>
HWY_INLINE void put(hn::Vec<U32> v, std::uint32_t* to) {
  if constexpr (kStreams && kCanStream) {
    hn::Stream(v, U32(), to);
  } else {
    hn::StoreU(v, U32(), to);
  }
}

// Four elements of each of the rows 0, 4, 8 and so on below `kRows`.
template <std::int64_t kRows>
HWY_INLINE auto every_fourth_row(const std::uint32_t* from, std::int64_t step) {
  if constexpr (kRows == 4) {
    return hn::LoadU(hn::CappedTag<std::uint32_t, 4>(), from);
  } else {
    constexpr std::int64_t kHalf = kRows / 2;
    return hn::Combine(hn::CappedTag<std::uint32_t, kRows>(),
                       every_fourth_row<kHalf>(from + kHalf * step, step),
                       every_fourth_row<kHalf>(from, step));
  }
}

// to[rows[c] + r] = from[r * step + c] for a tile. It goes four columns at a time, as squares of
// four in the 128-bit parts of vectors, where a shuffle costs least.
template <bool kStreams>
HWY_INLINE void transpose_to(const std::uint32_t* from, std::int64_t step, std::uint32_t* to,
                             const Rows& rows) {
  const U32 d;
  const hn::Repartition<std::uint64_t, U32> pairs;
  const auto lower = [&](auto a, auto b) HWY_ATTR {
    return hn::BitCast(d, hn::InterleaveLower(pairs, hn::BitCast(pairs, a), hn::BitCast(pairs, b)));
  };
  const auto upper = [&](auto a, auto b) HWY_ATTR {
    return hn::BitCast(d, hn::InterleaveUpper(pairs, hn::BitCast(pairs, a), hn::BitCast(pairs, b)));
  };
  for (std::size_t c = 0; c < rows.size(); c += 4) {
    const std::uint32_t* const in = from + c;
    const auto r0 = every_fourth_row<kTile>(in, step);
    const auto r1 = every_fourth_row<kTile>(in + step, step);
    const auto r2 = every_fourth_row<kTile>(in + 2 * step, step);
    const auto r3 = every_fourth_row<kTile>(in + 3 * step, step);
    const auto a = hn::InterleaveLower(d, r0, r1);
    const auto b = hn::InterleaveUpper(d, r0, r1);
    const auto e = hn::InterleaveLower(d, r2, r3);
    const auto f = hn::InterleaveUpper(d, r2, r3);
    put<kStreams>(lower(a, e), to + rows[c]);
    put<kStreams>(upper(a, e), to + rows[c + 1]);
    put<kStreams>(lower(b, f), to + rows[c + 2]);
    put<kStreams>(upper(b, f), to + rows[c + 3]);
  }
}

// Packs a tile by vectors along n. pack_tile() reads along the axis with the smaller stride, whose
// values are contiguous or apart (kApart).
template <bool kPaired, bool kStreams, bool kApart>
HWY_INLINE void pack_along_n(const BlockedWeight& p, const float* from, std::uint32_t* to,
                             const Rows& rows) {
  for (const std::int64_t row : rows) {
    const auto first = load_apart<kApart>(from, p.from_n);
    from += p.from_k;
    if constexpr (kPaired) {
      const auto second = load_apart<kApart>(from, p.from_n);
      put<kStreams>(interleaved(first, second), to + row);
      from += p.from_k;
    } else {
      put<kStreams>(hn::BitCast(U32(), first), to + row);
    }
  }
}

// Packs a tile by vectors along k, which are transposed.
template <bool kPaired, bool kStreams, bool kApart>
HWY_INLINE void pack_along_k(const BlockedWeight& p, const float* from, std::uint32_t* to,
                             const Rows& rows) {
  alignas(64) std::uint32_t square[kTile * kTile];
  for (std::int64_t i = 0; i < kTile; ++i, from += p.from_n) {
    if constexpr (!kStreams) {
      // Prefetches the next n's: the hardware prefetcher does not see them at the end of a row.
      for (std::int64_t k = 0; k < kTile * (kPaired ? 2 : 1); k += kLine) {
        __builtin_prefetch(from + kTile * p.from_n + k * p.from_k);
      }
    }
    const auto first = load_apart<kApart>(from, p.from_k);
    if constexpr (kPaired) {
      const auto second = load_apart<kApart>(from + kTile * p.from_k, p.from_k);
      hn::Store(paired(first, second), U32(), square + i * kTile);
    } else {
      hn::Store(hn::BitCast(U32(), first), U32(), square + i * kTile);
    }
  }
  // Makes the compiler load what it has stored. It would shuffle parts of registers instead; there
  // is one shuffle port, while two loads are free.
  asm volatile("" : : "r"(square) : "memory");
  transpose_to<kStreams>(square, kTile, to, rows);
}

template <bool kPaired, bool kStreams>
void pack_tile(const BlockedWeight& p, const float* from, std::uint32_t* to, const Rows& rows) {
  if (p.from_n == 1) {
    pack_along_n<kPaired, kStreams, false>(p, from, to, rows);
  } else if (p.from_k == 1) {
    pack_along_k<kPaired, kStreams, false>(p, from, to, rows);
  } else if (p.from_n < p.from_k) {
    pack_along_n<kPaired, kStreams, true>(p, from, to, rows);
  } else {
    pack_along_k<kPaired, kStreams, true>(p, from, to, rows);
  }
}

// The rows of the tile that begins at n and k.
inline Rows rows_of(const BlockedWeight& p, std::int64_t n, std::int64_t k) {
  Rows rows;
  const std::int64_t block_end = p.k_block / p.pair * p.n_block;
  // 64-bit divisions, or one for each row, would take longer than the tile itself.
  const auto quotient = [](std::int64_t a, std::int64_t b) {
    return static_cast<std::int64_t>(static_cast<std::uint32_t>(a) / static_cast<std::uint32_t>(b));
  };
  const std::int64_t block_n = quotient(n, p.n_block);
  const std::int64_t block_k = quotient(k, p.k_block);
  std::int64_t block = block_n * p.to_n + (n - block_n * p.n_block) + block_k * p.to_k;
  std::int64_t inside = (k - block_k * p.k_block) / p.pair * p.n_block;
  for (std::int64_t& row : rows) {
    row = block + inside;
    inside += p.n_block;
    if (inside < block_end) continue;
    inside = 0;
    block += p.to_k;
  }
  return rows;
}

#endif  // of these instruction sets

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
