// Products of a few rows with a matrix that every step of a recurrent layer reads. The matrix is
// packed once per sequence. Included once per instruction set, like simd-inl.h.
#if defined(MEZZO_KERNELS_CPU_RECURRENT_PANELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEZZO_KERNELS_CPU_RECURRENT_PANELS_INL_H_
#undef MEZZO_KERNELS_CPU_RECURRENT_PANELS_INL_H_
#else
#define MEZZO_KERNELS_CPU_RECURRENT_PANELS_INL_H_
#endif

#include "mezzo/core/scratch.h"
#include "mezzo/kernels/cpu/simd/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {

// Columns of a panel: two vectors.
HWY_INLINE std::int64_t panel_columns() { return 2 * lanes(); }

// Rows whose sums are in registers at once: two vectors each, and the two of the panel. AVX-512 and
// NEON have 32 registers, AVX2 and older ones 16.
inline constexpr int kPanelRows = HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM_A64 ? 8 : 6;

// A matrix [terms, columns] in memory: where its elements are.
template <class T>
struct MatrixView {
  const T* data;
  std::int64_t terms;
  std::int64_t columns;
  std::int64_t term_step;
  std::int64_t column_step;
};

// Writes columns [first, first + panel_columns()) of the matrix as f32: panel_columns() values for
// each term, with zeros past the last column.
template <class T>
void pack_panel(const MatrixView<T>& m, std::int64_t first, float* out) {
  const std::int64_t width = panel_columns();
  const std::int64_t count = std::min(width, m.columns - first);
  const T* from = m.data + first * m.column_step;
  std::fill_n(out, m.terms * width, 0.0F);
  // Along the memory of the matrix: whole lines are read either way.
  if (m.column_step == 1) {
    for (std::int64_t k = 0; k < m.terms; ++k) {
      for (std::int64_t j = 0; j < count; ++j) {
        out[k * width + j] = static_cast<float>(from[k * m.term_step + j]);
      }
    }
    return;
  }
  for (std::int64_t j = 0; j < count; ++j) {
    for (std::int64_t k = 0; k < m.terms; ++k) {
      out[k * width + j] = static_cast<float>(from[j * m.column_step + k * m.term_step]);
    }
  }
}

// The panel that is multiplied next, and what of it is prefetched: `ahead` bytes per term, from
// byte `first` on.
struct NextPanel {
  const float* panel;
  std::int64_t first;
  std::int64_t ahead;
};

// out[r][0 .. panel_columns()) = rows[r] * panel, for R rows of `terms` values. Each sum is added
// up in the order of its terms, whatever R is.
template <int R>
void multiply_panel_rows(const float* rows, std::int64_t terms, const float* panel, float* out,
                         const NextPanel& next) {
  F32Vec low[R];
  F32Vec high[R];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) low[r] = high[r] = hn::Zero(F32());
  const std::int64_t step = lanes();
  for (std::int64_t k = 0; k < terms; ++k) {
    prefetch(next.panel, next.first + k * next.ahead);
    const auto a = load(panel + 2 * k * step);
    const auto b = load(panel + (2 * k + 1) * step);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const auto value = hn::Set(F32(), rows[r * terms + k]);
      low[r] = hn::MulAdd(value, a, low[r]);
      high[r] = hn::MulAdd(value, b, high[r]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
    store(low[r], out + 2 * r * step);
    store(high[r], out + (2 * r + 1) * step);
  }
}

// multiply_panel_rows() for any number of dense rows. The panel `next`, which is multiplied after
// this one, is prefetched on the way: all panels together are larger than the second-level cache,
// and are read once per step.
inline void multiply_panel(const float* rows, std::int64_t count, std::int64_t terms,
                           const float* panel, const float* next, float* out) {
  const std::int64_t width = panel_columns();
  const std::int64_t groups = std::max<std::int64_t>(1, count / kPanelRows);
  const std::int64_t bytes = width * static_cast<std::int64_t>(sizeof(float));  // of a term
  NextPanel part{next, 0, bytes / groups};
  std::int64_t r = 0;
  const auto multiply = [&]<int R>() {
    for (; r + R <= count; r += R) {
      multiply_panel_rows<R>(rows + r * terms, terms, panel, out + r * width, part);
      part.first += terms * part.ahead;
      // Rows beyond the whole groups must not go past the next panel.
      if (part.first + terms * part.ahead > terms * bytes) part = {next, 0, 0};
    }
  };
  multiply.template operator()<kPanelRows>();
  multiply.template operator()<4>();
  multiply.template operator()<2>();
  multiply.template operator()<1>();
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
