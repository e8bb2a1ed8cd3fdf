// Loops over rows of any length: whole vectors, then a remainder. Included once per instruction
// set, like simd-inl.h.
#if defined(MEZZO_KERNELS_CPU_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEZZO_KERNELS_CPU_ROWS_INL_H_
#undef MEZZO_KERNELS_CPU_ROWS_INL_H_
#else
#define MEZZO_KERNELS_CPU_ROWS_INL_H_
#endif

#include "mezzo/kernels/cpu/simd/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {

// How much of a vector takes part: all lanes, or the first few at the end of a row.
struct Whole {};
struct Part {
  std::int64_t count;
};

template <class T>
HWY_INLINE F32Vec load(const T* p, Whole) {
  return load(p);
}
template <class T>
HWY_INLINE F32Vec load(const T* p, Part part) {
  return load_part(p, part.count);
}
template <class T>
HWY_INLINE void store(F32Vec v, T* p, Whole) {
  store(v, p);
}
template <class T>
HWY_INLINE void store(F32Vec v, T* p, Part part) {
  store_part(v, p, part.count);
}
// v with 0 in the lanes that take no part.
HWY_INLINE F32Vec keep(F32Vec v, Whole) { return v; }
HWY_INLINE F32Vec keep(F32Vec v, Part part) {
  return hn::IfThenElseZero(hn::FirstN(F32(), static_cast<std::size_t>(part.count)), v);
}

// Calls body(c, part) for the vectors that cover [0, count).
template <class Body>
HWY_INLINE void for_row(std::int64_t count, const Body& body) {
  const std::int64_t step = lanes();
  std::int64_t c = 0;
  for (; c + step <= count; c += step) body(c, Whole{});
  if (c < count) body(c, Part{count - c});
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
