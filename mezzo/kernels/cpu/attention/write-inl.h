// Sums of products, rounded to rows of the results. Included once per instruction set, like
// simd-inl.h.
#if defined(MEZZO_KERNELS_CPU_ATTENTION_WRITE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEZZO_KERNELS_CPU_ATTENTION_WRITE_INL_H_
#undef MEZZO_KERNELS_CPU_ATTENTION_WRITE_INL_H_
#else
#define MEZZO_KERNELS_CPU_ATTENTION_WRITE_INL_H_
#endif

#include "mezzo/kernels/cpu/attention/operand-inl.h"
#include "mezzo/kernels/cpu/simd/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE::attention_tiles {

// Rows of a result: `count` rows of n elements, `step` elements apart.
template <class T>
struct ResultRows {
  T* to = nullptr;
  std::int64_t step = 0;
  std::int64_t count = 0;
  std::int64_t n = 0;
};

// Rounds columns [n][kTilePitch] times `scale`, column by column.
template <class T>
void write_columns(const float* columns, float scale, const ResultRows<T>& rows) {
  alignas(64) float block[kTileQueries * kRowMultiple];
  const auto factor = number(scale);
  for (std::int64_t c = 0; c < rows.n; c += kRowMultiple) {
    for (std::int64_t i = 0; i < rows.count; i += kRowMultiple) {
      transpose_square<kRowMultiple, kRowMultiple>(columns + c * kTilePitch + i, kTilePitch,
                                                   block + i * kRowMultiple);
    }
    const std::int64_t left = std::min(rows.n - c, kRowMultiple);
    for (std::int64_t i = 0; i < rows.count; ++i) {
      T* const to = rows.to + i * rows.step + c;
      for_row(left, [&](std::int64_t k, auto part) HWY_ATTR {
        store(hn::Mul(load(block + i * kRowMultiple + k), factor), to + k, part);
      });
    }
  }
}

// Rounds rows of sums, `width` apart, times `scale`.
template <class T>
void write_rows(const float* sums, std::int64_t width, float scale, const ResultRows<T>& rows) {
  const auto factor = number(scale);
  T* to = rows.to;
  for (std::int64_t j = 0; j < rows.count; ++j, to += rows.step, sums += width) {
    for_row(rows.n, [&](std::int64_t c, auto part)
                        HWY_ATTR { store(hn::Mul(load(sums + c), factor), to + c, part); });
  }
}

}  // namespace mezzo::HWY_NAMESPACE::attention_tiles
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
