// Tiles of queries, or of gradients of their results, as operands of products. Included once per
// instruction set, like simd-inl.h.
#if defined(MEZZO_KERNELS_CPU_ATTENTION_QUERY_OPERAND_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEZZO_KERNELS_CPU_ATTENTION_QUERY_OPERAND_INL_H_
#undef MEZZO_KERNELS_CPU_ATTENTION_QUERY_OPERAND_INL_H_
#else
#define MEZZO_KERNELS_CPU_ATTENTION_QUERY_OPERAND_INL_H_
#endif

#include "mezzo/kernels/cpu/attention/operand-inl.h"
#include "mezzo/kernels/cpu/simd/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE::attention_tiles {

// A tile of rows of q, or of the gradient of the result, as a second operand.
template <class T, class Products>
class QueryOperand {
 public:
  // `by_rows`: rows() is needed, too.
  QueryOperand(std::int64_t n, bool by_rows, Room& room)
      : n_(n),
        width_(padded_width(n)),
        rows_(room.take(kTileQueries * width_)),
        columns_(room.take(padded_width(numbers_of<Products>(n)) * kTilePitch)) {
    if (Products::kPaired && by_rows) pairs_ = room.take(kTileQueries / 2 * width_);
  }

  // Takes `count` rows from `from` on, `step` elements apart. Columns and terms beyond are 0, up to
  // whole vectors and tiles.
  void set(const T* from, std::int64_t step, std::int64_t count) {
    using Number = std::conditional_t<Products::kPaired, T, float>;
    auto* const rows = reinterpret_cast<Number*>(rows_);
    copy_rows(from, step, count, n_, rows, width_in<Number>());
    const std::int64_t all = round_up(count, std::max(kRowMultiple, 2 * Products::kTermStep));
    std::fill_n(rows + count * width_in<Number>(), (all - count) * width_in<Number>(), Number());
    const std::int64_t terms =
        round_up(numbers_of<Products>(n_), std::max(Products::kTermStep, std::int64_t{4}));
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
  const float* rows() const { return Products::kPaired ? pairs_ : rows_; }
  std::int64_t width() const { return width_; }
  std::int64_t vectors() const { return ceil_div(n_, lanes()); }
  std::int64_t features() const { return n_; }

 private:
  // Elements from one row to the next: rows are `width_` numbers of four bytes.
  template <class Number>
  std::int64_t width_in() const {
    return std::is_same_v<Number, float> ? width_ : 2 * width_;
  }

  std::int64_t n_;
  std::int64_t width_;
  float* rows_;
  float* columns_;
  float* pairs_ = nullptr;
};

}  // namespace mezzo::HWY_NAMESPACE::attention_tiles
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
