// Sums run over blocks of 64 elements per f32 vector lane, and the blocks are added in f64. A
// single f32 accumulator would lose the small terms of a long sum, and its error would grow
// linearly with the length. Here the error is that of one block, whatever the length.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mezzo/kernels/cpu/loops/reduce_blocks.cpp"
#include "mezzo/kernels/cpu/loops/reduce_blocks.h"

#include <hwy/foreach_target.h>

#include "mezzo/kernels/cpu/loops/layout.h"
#include "mezzo/kernels/cpu/simd/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {
namespace {

using kernels::combine;
using kernels::ReduceBlocks;
using kernels::Reduction;
using kernels::start_of;

template <Reduction kReduction>
HWY_INLINE F32Vec start() {
  return hn::Set(F32(), static_cast<float>(start_of(kReduction)));
}

template <Reduction kReduction>
HWY_INLINE F32Vec combine(F32Vec total, F32Vec v) {
  if constexpr (kReduction == Reduction::kSum) return hn::Add(total, v);
  return hn::IfThenElse(hn::Or(hn::Gt(v, total), hn::IsNaN(v)), v, total);
}

template <Reduction kReduction>
double across(F32Vec v) {
  if constexpr (kReduction == Reduction::kSum) return hn::GetLane(hn::SumOfLanes(F32(), v));
  alignas(64) float values[kMaxLanes];
  hn::Store(v, F32(), values);
  double total = start_of(kReduction);
  for (std::int64_t k = 0; k < lanes(); ++k) total = combine(kReduction, total, double{values[k]});
  return total;
}

constexpr std::int64_t kRowBlock = 256 * kMaxLanes;  // elements per f32 partial result of a row
constexpr std::int64_t kColumnBlock = 64;            // rows per f32 partial result of a column
constexpr std::int64_t kColumnChunk = 4096;          // columns that are handled together

// Reduces at most kRowBlock elements: each of four vectors combines up to 64.
template <Reduction kReduction, class T>
double reduce_row(const void* x, std::int64_t n) {
  const T* const p = static_cast<const T*>(x);
  const std::int64_t step = lanes();
  F32Vec a = start<kReduction>();
  F32Vec b = a;
  F32Vec c = a;
  F32Vec d = a;
  std::int64_t i = 0;
  for (; i + 4 * step <= n; i += 4 * step) {
    a = combine<kReduction>(a, load(p + i));
    b = combine<kReduction>(b, load(p + i + step));
    c = combine<kReduction>(c, load(p + i + 2 * step));
    d = combine<kReduction>(d, load(p + i + 3 * step));
  }
  for (; i + step <= n; i += step) a = combine<kReduction>(a, load(p + i));
  if (i < n) {
    const auto valid = hn::FirstN(F32(), static_cast<std::size_t>(n - i));
    const F32Vec rest = load_part(p + i, n - i);
    b = combine<kReduction>(b, hn::IfThenElse(valid, rest, start<kReduction>()));
  }
  return across<kReduction>(
      combine<kReduction>(combine<kReduction>(a, b), combine<kReduction>(c, d)));
}

// Combines up to 8 rows into the f32 partial results of their columns. With kAsks, prefetches as
// many rows after them.
template <Reduction kReduction, bool kAsks, class T>
void add_rows(const T* p, std::int64_t rows, std::int64_t stride, std::int64_t cols,
              float* partial) {
  const std::int64_t step = lanes();
  std::int64_t j = 0;
  for (; j + step <= cols; j += step) {
    F32Vec total = hn::LoadU(F32(), partial + j);
    for (std::int64_t r = 0; r < rows; ++r) {
      const T* const at = p + r * stride + j;
      if constexpr (kAsks) prefetch(at, rows * stride * static_cast<std::int64_t>(sizeof(T)));
      total = combine<kReduction>(total, load(at));
    }
    hn::StoreU(total, F32(), partial + j);
  }
  if (j < cols) {
    F32Vec total = load_part(partial + j, cols - j);
    for (std::int64_t r = 0; r < rows; ++r) {
      total = combine<kReduction>(total, load_part(p + r * stride + j, cols - j));
    }
    store_part(total, partial + j, cols - j);
  }
}

template <Reduction kReduction, class T>
void reduce_columns(const void* x, std::int64_t rows, std::int64_t stride, std::int64_t cols,
                    double* totals) {
  const T* const p = static_cast<const T*>(x);
  const auto add =
      rows * cols >= kMany ? add_rows<kReduction, true, T> : add_rows<kReduction, false, T>;
  float partial[kColumnChunk];
  for (std::int64_t first = 0; first < cols; first += kColumnChunk) {
    const std::int64_t count = std::min(kColumnChunk, cols - first);
    for (std::int64_t block = 0; block < rows; block += kColumnBlock) {
      const std::int64_t end = std::min(block + kColumnBlock, rows);
      std::fill_n(partial, count, static_cast<float>(start_of(kReduction)));
      for (std::int64_t r = block; r < end; r += 8) {
        add(p + r * stride + first, std::min<std::int64_t>(8, end - r), stride, count, partial);
      }
      for (std::int64_t j = 0; j < count; ++j) {
        totals[first + j] = combine(kReduction, totals[first + j], double{partial[j]});
      }
    }
  }
}

}  // namespace

ReduceBlocks reduce_blocks(Reduction reduction, DType dtype) {
  ReduceBlocks blocks;
  kernels::visit_vector_dtype(dtype, [&]<class T>() {
    blocks = reduction == Reduction::kSum ? ReduceBlocks{kRowBlock, reduce_row<Reduction::kSum, T>,
                                                         reduce_columns<Reduction::kSum, T>}
                                          : ReduceBlocks{kRowBlock, reduce_row<Reduction::kMax, T>,
                                                         reduce_columns<Reduction::kMax, T>};
  });
  return blocks;
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mezzo::kernels {

HWY_EXPORT(reduce_blocks);

ReduceBlocks reduce_blocks(Reduction reduction, DType dtype) {
  return HWY_DYNAMIC_DISPATCH(reduce_blocks)(reduction, dtype);
}

}  // namespace mezzo::kernels
#endif
