// Philox4x32-10 (see core/random.h) vectorised, one counter per lane. Included once per instruction
// set, hence no ordinary include guard.
#if defined(MEZZO_KERNELS_CPU_PHILOX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEZZO_KERNELS_CPU_PHILOX_INL_H_
#undef MEZZO_KERNELS_CPU_PHILOX_INL_H_
#else
#define MEZZO_KERNELS_CPU_PHILOX_INL_H_
#endif

#include <algorithm>

#include "mezzo/core/random.h"
#include "mezzo/kernels/cpu/simd/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {

// The most words that philox_words() makes: it makes 4 * lanes().
inline constexpr std::int64_t kPhiloxWords = 4 * kMaxLanes;

inline void scalar_philox_words(RandomPosition position, std::uint64_t block,
                                std::uint32_t* words) {
  for (std::int64_t i = 0; i < lanes(); ++i, ++block) {
    const auto four =
        philox({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), 0, 0},
               {static_cast<std::uint32_t>(position.seed),
                static_cast<std::uint32_t>(position.seed >> 32)});
    std::copy(four.begin(), four.end(), words + 4 * i);
  }
}

#if HWY_TARGET == HWY_SCALAR
inline void philox_words(RandomPosition position, std::uint64_t block, std::uint32_t* words) {
  scalar_philox_words(position, block, words);
}
#else
using U32Vec = hn::Vec<U32>;

// Multiplies 32-bit lanes to 64 bits, and returns the two halves of the products.
HWY_INLINE void multiply_wide(U32Vec a, std::uint32_t factor, U32Vec& high, U32Vec& low) {
  const U32 u32;
  const hn::RepartitionToWide<U32> u64;
  const auto b = hn::Set(u32, factor);
  const auto even = hn::MulEven(a, b);
  const auto odd = hn::MulEven(hn::BitCast(u32, hn::ShiftRight<32>(hn::BitCast(u64, a))), b);
  low = hn::OddEven(hn::BitCast(u32, hn::ShiftLeft<32>(odd)), hn::BitCast(u32, even));
  high = hn::OddEven(hn::BitCast(u32, odd), hn::BitCast(u32, hn::ShiftRight<32>(even)));
}

inline void philox_words(RandomPosition position, std::uint64_t block, std::uint32_t* words) {
  const U32 u32;
  const auto low_counter = static_cast<std::uint32_t>(block);
  if (low_counter > ~0U - kMaxLanes) return scalar_philox_words(position, block, words);  // a carry
  auto c0 = hn::Add(hn::Set(u32, low_counter), hn::Iota(u32, 0));
  auto c1 = hn::Set(u32, static_cast<std::uint32_t>(block >> 32));
  auto c2 = hn::Zero(u32);
  auto c3 = hn::Zero(u32);
  auto key0 = static_cast<std::uint32_t>(position.seed);
  auto key1 = static_cast<std::uint32_t>(position.seed >> 32);
  for (int round = 0; round < 10; ++round) {
    auto high0 = c0;
    auto low0 = c0;
    auto high1 = c0;
    auto low1 = c0;
    multiply_wide(c0, 0xD2511F53U, high0, low0);
    multiply_wide(c2, 0xCD9E8D57U, high1, low1);
    c0 = hn::Xor(hn::Xor(high1, c1), hn::Set(u32, key0));
    c1 = low1;
    c2 = hn::Xor(hn::Xor(high0, c3), hn::Set(u32, key1));
    c3 = low0;
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
  hn::StoreInterleaved4(c0, c1, c2, c3, u32, words);
}
#endif

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
