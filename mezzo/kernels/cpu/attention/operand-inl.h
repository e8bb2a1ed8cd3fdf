// What operands of products are made with: scratch memory, pairs and copies of rows. Included once
// per instruction set, like simd-inl.h.
//
// Sums have a column per query. So tiles of queries (query_operand-inl.h) are second operands,
// whose vectors are numbers of different queries, and rows of keys and values (key_operand-inl.h)
// are first operands, which are read number by number where they are. For products of bf16 a number
// is a pair of terms, and the tile unit reads 16 rows of 16 pairs.
#if defined(MEZZO_KERNELS_CPU_ATTENTION_OPERAND_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEZZO_KERNELS_CPU_ATTENTION_OPERAND_INL_H_
#undef MEZZO_KERNELS_CPU_ATTENTION_OPERAND_INL_H_
#else
#define MEZZO_KERNELS_CPU_ATTENTION_OPERAND_INL_H_
#endif

#include "mezzo/kernels/cpu/attention/problem.h"
#include "mezzo/kernels/cpu/attention/product-inl.h"
#include "mezzo/kernels/cpu/simd/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE::attention_tiles {

using kernels::attention::kTileKeys;
using kernels::attention::kTilePitch;
using kernels::attention::kTileQueries;

// The numbers of a row in scratch memory: whole vectors, and whole squares to transpose.
inline constexpr std::int64_t kRowMultiple = 16;
HWY_INLINE std::int64_t padded_width(std::int64_t n) { return round_up(n, kRowMultiple); }

// Scratch memory, handed out piece by piece. Without memory it only counts.
class Room {
 public:
  explicit Room(float* memory = nullptr) : memory_(memory) {}
  float* take(std::int64_t numbers) {
    float* const piece = memory_ != nullptr ? memory_ + used_ : nullptr;
    used_ += round_up(numbers, kRowMultiple);
    return piece;
  }
  std::int64_t used() const { return used_; }

 private:
  float* memory_;
  std::int64_t used_ = 0;
};

// The number of terms, or of pairs of them.
template <class Products>
HWY_INLINE std::int64_t numbers_of(std::int64_t terms) {
  return Products::kPaired ? ceil_div(terms, std::int64_t{2}) : terms;
}

// to[c] is the pair first[c], second[c], for `count` rounded up to whole vectors; the arrays are
// that long. Without `second` it is zeros.
template <class In>
HWY_INLINE void pair_up(const In* first, const In* second, std::int64_t count, float* to) {
  const U32 u32;
  const auto bits = [&](const In* from) HWY_ATTR {
    if constexpr (std::is_same_v<In, float>) return hn::PromoteTo(u32, round_to_bf16(load(from)));
    if constexpr (!std::is_same_v<In, float>) {
      return hn::PromoteTo(u32, hn::LoadU(U16(), reinterpret_cast<const std::uint16_t*>(from)));
    }
  };
  for (std::int64_t c = 0; c < count; c += lanes()) {
    auto pair = bits(first + c);
    if (second != nullptr) pair = hn::Or(pair, hn::ShiftLeft<16>(bits(second + c)));
    store(hn::BitCast(F32(), pair), to + c);
  }
}

// Copies rows of n elements to rows of `width` elements of type Out, which is T or f32. The rest of
// a row is 0.
template <class T, class Out>
void copy_rows(const T* from, std::int64_t step, std::int64_t rows, std::int64_t n, Out* to,
               std::int64_t width) {
  for (std::int64_t i = 0; i < rows; ++i, from += step, to += width) {
    if constexpr (std::is_same_v<T, Out>) {
      // Rows without elements have no memory.
      if (n > 0) std::memcpy(to, from, static_cast<std::size_t>(n) * sizeof(T));
    } else {
      for_row(n, [&](std::int64_t c, auto part)
                     HWY_ATTR { store(load(from + c, part), to + c, part); });
    }
    std::memset(static_cast<void*>(to + n), 0, static_cast<std::size_t>(width - n) * sizeof(Out));
  }
}

}  // namespace mezzo::HWY_NAMESPACE::attention_tiles
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
