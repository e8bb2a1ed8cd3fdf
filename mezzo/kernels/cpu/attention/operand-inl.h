// Tiles of rows of q, k, v and the gradient as operands of products. Included once per instruction
// set, like simd-inl.h.
//
// Sums have a column per query. So tiles of queries are second operands, whose vectors are numbers
// of different queries, and rows of keys and values are first operands, which are read number by
// number where they are. With the CPU's dot product of bf16 (kPaired), a number is a pair of terms.
#if defined(MEZZO_KERNELS_CPU_ATTENTION_OPERAND_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEZZO_KERNELS_CPU_ATTENTION_OPERAND_INL_H_
#undef MEZZO_KERNELS_CPU_ATTENTION_OPERAND_INL_H_
#else
#define MEZZO_KERNELS_CPU_ATTENTION_OPERAND_INL_H_
#endif

#include "mezzo/kernels/cpu/attention/problem.h"
#include "mezzo/kernels/cpu/attention/product-inl.h"
#include "mezzo/kernels/cpu/simd/rows-inl.h"
#include "mezzo/kernels/cpu/simd/transpose-inl.h"

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
template <bool kPaired>
HWY_INLINE std::int64_t numbers_of(std::int64_t terms) {
  return kPaired ? ceil_div(terms, std::int64_t{2}) : terms;
}

// to[c] is the pair first[c], second[c], for `count` rounded up to whole vectors; the arrays are
// that long.
template <class In>
HWY_INLINE void pair_up(const In* first, const In* second, std::int64_t count, float* to) {
  const U32 u32;
  for (std::int64_t c = 0; c < count; c += lanes()) {
    const auto bits = [&](const In* from) HWY_ATTR {
      if constexpr (std::is_same_v<In, float>) return hn::PromoteTo(u32, round_to_bf16(load(from)));
      if constexpr (!std::is_same_v<In, float>) {
        return hn::PromoteTo(u32, hn::LoadU(U16(), reinterpret_cast<const std::uint16_t*>(from)));
      }
    };
    const auto pair = hn::Or(bits(first + c), hn::ShiftLeft<16>(bits(second + c)));
    store(hn::BitCast(F32(), pair), to + c);
  }
}

// Copies rows of n elements to rows of `width` numbers: f32 if kWidens, else of type T. The rest of
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

// Rows of k or v as a first operand.
template <class T, bool kPaired>
class KeyOperand {
 public:
  KeyOperand(std::int64_t n, Room& room) : n_(n), width_(padded_width(n)) {
    // f32 rows are read where they are.
    if constexpr (!std::is_same_v<T, float>) copy_ = room.take(kTileKeys * width_);
    if constexpr (kPaired) pairs_ = room.take(kTileKeys / 2 * width_);
  }

  // Takes the rows from `from` on, `step` elements apart. `by_columns`: columns() is needed, too.
  void set(const T* from, std::int64_t step, std::int64_t count, bool by_columns) {
    const std::int64_t bytes = step * static_cast<std::int64_t>(sizeof(T));
    if constexpr (std::is_same_v<T, float>) {
      rows_ = {from, bytes, kNumber};
    } else if constexpr (!kPaired) {
      copy_rows(from, step, count, n_, copy_, width_);
      rows_ = {copy_, width_ * kNumber, kNumber};
    } else {
      auto* const copy = reinterpret_cast<T*>(copy_);
      rows_ = {from, bytes, kNumber};
      // A row of an odd number of elements does not end with a pair.
      if (n_ % 2 != 0 || by_columns) copy_rows(from, step, count, n_, copy, 2 * width_);
      if (n_ % 2 != 0) rows_ = {copy, 2 * width_ * std::int64_t{sizeof(T)}, kNumber};
      if (by_columns) set_pairs(copy, count);
    }
  }

  // A row per key; terms are features.
  const Numbers& rows() const { return rows_; }
  std::int64_t row_terms() const { return numbers_of<kPaired>(n_); }
  // A row per feature; terms are keys.
  Numbers columns() const {
    if constexpr (kPaired) return {pairs_, kNumber, width_ * kNumber};
    return {rows_.data, kNumber, rows_.row};
  }

 private:
  static constexpr std::int64_t kNumber = sizeof(float);  // bytes

  void set_pairs(T* copy, std::int64_t count) {
    if (count % 2 != 0) std::fill_n(copy + count * 2 * width_, width_, T());
    for (std::int64_t j = 0; j < count; j += 2) {
      const T* const row = copy + j * 2 * width_;
      pair_up(row, row + 2 * width_, n_, pairs_ + j / 2 * width_);
    }
  }

  std::int64_t n_;
  std::int64_t width_;
  float* copy_ = nullptr;
  float* pairs_ = nullptr;
  Numbers rows_;
};

// A tile of rows of q, or of the gradient of the result, as a second operand.
template <class T, bool kPaired>
class QueryOperand {
 public:
  // `by_rows`: rows() is needed, too.
  QueryOperand(std::int64_t n, bool by_rows, Room& room)
      : n_(n),
        width_(padded_width(n)),
        rows_(room.take(kTileQueries * width_)),
        columns_(room.take(padded_width(numbers_of<kPaired>(n)) * kTilePitch)) {
    if (kPaired && by_rows) pairs_ = room.take(kTileQueries / 2 * width_);
  }

  // Takes `count` rows from `from` on, `step` elements apart. Columns beyond are 0 up to a whole
  // vector.
  void set(const T* from, std::int64_t step, std::int64_t count) {
    using Number = std::conditional_t<kPaired, T, float>;
    auto* const rows = reinterpret_cast<Number*>(rows_);
    copy_rows(from, step, count, n_, rows, width_in<Number>());
    const std::int64_t all = round_up(count, kRowMultiple);
    std::fill_n(rows + count * width_in<Number>(), (all - count) * width_in<Number>(), Number());
    const std::int64_t terms = round_up(numbers_of<kPaired>(n_), std::int64_t{4});
    for (std::int64_t i = 0; i < all; i += 4) {
      for (std::int64_t c = 0; c < terms; c += 4) {
        transpose_square<4, kTilePitch>(rows_ + i * width_ + c, width_,
                                        columns_ + c * kTilePitch + i);
      }
    }
    if (pairs_ == nullptr) return;
    for (std::int64_t i = 0; i < all; i += 2) {
      const Number* const row = rows + i * width_in<Number>();
      pair_up(row, row + width_in<Number>(), n_, pairs_ + i / 2 * width_);
    }
  }

  // [terms][kTilePitch]: terms are features, columns are queries.
  const float* columns() const { return columns_; }
  // [terms][width()]: terms are queries, columns are features.
  const float* rows() const { return kPaired ? pairs_ : rows_; }
  std::int64_t width() const { return width_; }
  std::int64_t vectors() const { return ceil_div(n_, lanes()); }
  std::int64_t features() const { return n_; }

 private:
  // Elements from one row to the next: rows are `width_` numbers of four bytes.
  template <class Number>
  std::int64_t width_in() const {
    return width_ * static_cast<std::int64_t>(sizeof(float) / sizeof(Number));
  }

  std::int64_t n_;
  std::int64_t width_;
  float* rows_;
  float* columns_;
  float* pairs_ = nullptr;
};

// Rounds columns [n][kTilePitch] times `scale`, column by column, to `count` rows of n elements.
template <class T>
void write_columns(const float* columns, float scale, std::int64_t n, std::int64_t count, T* to,
                   std::int64_t step) {
  alignas(64) float rows[kTileQueries * kRowMultiple];
  for (std::int64_t c = 0; c < n; c += kRowMultiple) {
    for (std::int64_t i = 0; i < count; i += kRowMultiple) {
      transpose_square<kRowMultiple, kRowMultiple>(columns + c * kTilePitch + i, kTilePitch,
                                                   rows + i * kRowMultiple);
    }
    const std::int64_t left = std::min(n - c, kRowMultiple);
    for (std::int64_t i = 0; i < count; ++i) {
      for_row(left, [&](std::int64_t k, auto part) HWY_ATTR {
        const F32Vec v = load(rows + i * kRowMultiple + k);
        store(hn::Mul(v, hn::Set(F32(), scale)), to + i * step + c + k, part);
      });
    }
  }
}

}  // namespace mezzo::HWY_NAMESPACE::attention_tiles
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
