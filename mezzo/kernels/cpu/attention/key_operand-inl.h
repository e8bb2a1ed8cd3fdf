// Rows of keys or values as operands of products. Included once per instruction set, like
// simd-inl.h.
#if defined(MEZZO_KERNELS_CPU_ATTENTION_KEY_OPERAND_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEZZO_KERNELS_CPU_ATTENTION_KEY_OPERAND_INL_H_
#undef MEZZO_KERNELS_CPU_ATTENTION_KEY_OPERAND_INL_H_
#else
#define MEZZO_KERNELS_CPU_ATTENTION_KEY_OPERAND_INL_H_
#endif

#include "mezzo/kernels/cpu/attention/operand-inl.h"
#include "mezzo/kernels/cpu/simd/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE::attention_tiles {

// What products read of rows of k or v: rows, columns, or both.
enum class KeyForm : std::uint8_t { kRows, kColumns, kBoth };

// Rows of k or v as a first operand.
template <class T, class Products>
class KeyOperand {
 public:
  KeyOperand(std::int64_t n, KeyForm form, Room& room)
      : n_(n), width_(padded_width(n)), form_(form) {
    // f32 rows are read where they are.
    if constexpr (!std::is_same_v<T, float>) copy_ = room.take(kTileKeys * width_);
    if (!Products::kPaired || form == KeyForm::kRows) return;
    pairs_ = room.take(kTilePairs * width_);
    if (Products::kTermsAdjoin) columns_ = room.take(width_ * kTilePairs);
  }

  // Takes `count` rows from `from` on, `step` elements apart.
  void set(const T* from, std::int64_t step, std::int64_t count) {
    if constexpr (Products::kPaired) {
      set_paired(from, step, count);
    } else if constexpr (std::is_same_v<T, float>) {
      rows_ = {from, step * kNumber, kNumber};
    } else {
      copy_rows(from, step, count, n_, copy_, width_);
      rows_ = {copy_, width_ * kNumber, kNumber};
    }
  }

  // A row per key; terms are features.
  const Numbers& rows() const { return rows_; }
  std::int64_t row_terms() const { return numbers_of<Products>(n_); }
  // A row per feature; terms are keys.
  Numbers columns() const {
    if constexpr (!Products::kPaired) return {rows_.data, kNumber, rows_.row};
    if constexpr (Products::kTermsAdjoin) return {columns_, kTilePairs * kNumber, kNumber};
    return {pairs_, kNumber, width_ * kNumber};
  }

 private:
  static constexpr std::int64_t kNumber = sizeof(float);  // bytes
  static constexpr std::int64_t kTilePairs = kTileKeys / 2;

  void set_paired(const T* from, std::int64_t step, std::int64_t count) {
    const T* rows = from;
    std::int64_t pitch = step;
    if (!may_stay(count)) {
      auto* const copy = reinterpret_cast<T*>(copy_);
      rows = copy;
      pitch = 2 * width_;
      copy_rows(from, step, count, n_, copy, pitch);
      const std::int64_t all = round_up(count, Products::kRowStep);
      std::fill(copy + count * pitch, copy + all * pitch, T());
    }
    rows_ = {rows, pitch * std::int64_t{sizeof(T)}, kNumber};
    if (form_ != KeyForm::kRows) set_pairs(rows, pitch, count);
  }

  // Whether products may read rows where they are. Elsewhere the last numbers of a row would not be
  // whole pairs, tiles or vectors, nor the last rows whole tiles; what follows them in memory may
  // be infinite, or nothing.
  bool may_stay(std::int64_t count) const {
    const bool rows = n_ % (2 * Products::kTermStep) == 0 && count % Products::kRowStep == 0;
    const bool columns = n_ % kRowMultiple == 0;
    return (rows || form_ == KeyForm::kColumns) && (columns || form_ == KeyForm::kRows);
  }

  void set_pairs(const T* rows, std::int64_t pitch, std::int64_t count) {
    for (std::int64_t j = 0; j < count; j += 2) {
      const T* const row = rows + j * pitch;
      pair_up(row, j + 1 < count ? row + pitch : nullptr, n_, pairs_ + j / 2 * width_);
    }
    if constexpr (Products::kTermsAdjoin) transpose_pairs(ceil_div(count, std::int64_t{2}));
  }

  void transpose_pairs(std::int64_t pairs) {
    const std::int64_t all = round_up(pairs, Products::kTermStep);
    std::fill(pairs_ + pairs * width_, pairs_ + all * width_, 0.0F);
    for (std::int64_t j = 0; j < all; j += kRowMultiple) {
      for (std::int64_t c = 0; c < width_; c += kRowMultiple) {
        transpose_square<kRowMultiple, kTilePairs>(pairs_ + j * width_ + c, width_,
                                                   columns_ + c * kTilePairs + j);
      }
    }
  }

  std::int64_t n_;
  std::int64_t width_;
  KeyForm form_;
  float* copy_ = nullptr;
  float* pairs_ = nullptr;    // [kTilePairs][width_]
  float* columns_ = nullptr;  // [width_][kTilePairs]
  Numbers rows_;
};

}  // namespace mezzo::HWY_NAMESPACE::attention_tiles
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
