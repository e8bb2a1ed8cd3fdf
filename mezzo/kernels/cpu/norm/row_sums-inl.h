// Sums over the rows that layer norm and RMS norm normalise. Included once per instruction set,
// like simd-inl.h.
#if defined(MEZZO_KERNELS_CPU_NORM_ROW_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEZZO_KERNELS_CPU_NORM_ROW_SUMS_INL_H_
#undef MEZZO_KERNELS_CPU_NORM_ROW_SUMS_INL_H_
#else
#define MEZZO_KERNELS_CPU_NORM_ROW_SUMS_INL_H_
#endif

#include "mezzo/kernels/cpu/loops/layout.h"
#include "mezzo/kernels/cpu/simd/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {

HWY_INLINE float sum_of_lanes(F32Vec v) { return hn::GetLane(hn::SumOfLanes(F32(), v)); }

// A [normalized] input as f32, or a constant if it is absent.
inline Tensor weights_of(const Tensor& values, std::int64_t size, double otherwise) {
  return values.defined() ? kernels::dense(values, Format::kContiguous) : full({size}, otherwise);
}

// Two sums over a row. `add` adds the terms of vector i to both of its vectors. These are added to
// the totals after every block: a single f32 that sums thousands of terms loses the last ones.
template <class Add>
HWY_INLINE void sum_row(std::int64_t size, F32Vec& first, F32Vec& second, const Add& add) {
  constexpr std::int64_t kBlock = 512;
  first = second = hn::Zero(F32());
  for (std::int64_t begin = 0; begin < size; begin += kBlock) {
    auto a = hn::Zero(F32());
    auto b = hn::Zero(F32());
    for_row(std::min(kBlock, size - begin),
            [&](std::int64_t i, auto part) HWY_ATTR { add(begin + i, part, a, b); });
    first = hn::Add(first, a);
    second = hn::Add(second, b);
  }
}

// Adds an array to another one.
HWY_INLINE void add_array(const float* from, float* to, std::int64_t size) {
  for_row(size, [&](std::int64_t i, auto part) HWY_ATTR {
    store(hn::Add(load(from + i, part), load(to + i, part)), to + i, part);
  });
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
